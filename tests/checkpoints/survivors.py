"""Random lives of threads beside a model that keeps a full copy of everything.

Whatever was saved, forked, rewound, redone, pruned, deleted and compacted: a point that is listed loads as it was made,
what is protected is listed, and the conversation is the one that was had.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

from perdure import Checkpoint, Retention
from perdure.core.errors import NotFoundError

State = dict[str, Any]


@dataclass
class Copy:
    """All that is known of one thread."""

    handle: Any
    state: State = field(default_factory=lambda: {"messages": [], "n": 0, "notes": {}})
    said: list[Any] = field(default_factory=list)
    points: dict[str, tuple[State, list[Any], int]] = field(default_factory=dict)  # by id: state, said, version
    undo: tuple[State, list[Any]] | None = None  # before the newest change, if that was a rewind
    tags: dict[str, str] = field(default_factory=dict)
    forked: set[str] = field(default_factory=set)


async def play(store: Any, seed: int, steps: int) -> None:
    """Play one life; a failure names the seed and the last things that were done."""
    life = Life(store, seed)
    try:
        await life.play(steps)
    except BaseException as exc:
        exc.add_note(f"life {seed}, {len(life.log)} steps, the last: {'; '.join(life.log[-12:])}")
        raise


class Life:
    """Plays one sequence and compares. `store` is a Perdure, or a synchronous one whose calls are awaited."""

    def __init__(self, store: Any, seed: int) -> None:
        self.store = store
        self.user = f"life {seed}"
        self.rng = random.Random(seed)
        self.made = 0
        self.threads: dict[str, Copy] = {}
        self.log: list[str] = []

    async def play(self, steps: int) -> None:
        await self._new("root")
        acts = (
            [self.save] * 6
            + [self.append] * 3
            + [self.cut, self.drop_list, self.update, self.mark, self.fork, self.rewind, self.rewind]
        )
        acts += [self.redo, self.tag, self.untag, self.prune, self.prune, self.delete, self.compact, self.after]
        for _ in range(steps):
            act = self.rng.choice(acts)
            name = self.rng.choice(sorted(self.threads))
            self.log.append(f"{act.__name__} {name}")
            await act(name)
        for name in self.threads:
            await self.check(name)

    async def _new(self, name: str) -> None:
        self.threads[name] = Copy(self.store.thread(name, user=self.user, agent=f"agent of {name}"))
        await self.save(name)

    def _kept(self, name: str, point: Checkpoint) -> None:
        mine = self.threads[name]
        mine.points[point.id] = (copy.deepcopy(mine.state), list(mine.said), point.version)

    def _message(self) -> dict[str, Any]:
        self.made += 1
        return {"role": "user", "content": f"message {self.made} " * self.rng.randrange(1, 40)}

    def _change(self, mine: Copy) -> None:
        mine.undo = None
        for _ in range(self.rng.randrange(3)):
            message = self._message()
            mine.state["messages"].append(message)
            mine.said.append(message)
        mine.state["n"] = self.rng.randrange(1000)
        mine.state["notes"][f"k{self.rng.randrange(6)}"] = "x" * self.rng.choice([1, 50, 3000])
        if self.rng.random() < 0.05:
            mine.state["notes"]["large"] = f"{self.made}" * 40_000

    async def save(self, name: str) -> None:
        mine = self.threads[name]
        self._change(mine)
        kind = self.rng.choice(["manual", "routine", "recovery"])
        self._kept(name, await mine.handle.save(copy.deepcopy(mine.state), kind=kind))

    async def append(self, name: str) -> None:
        mine, message = self.threads[name], self._message()
        mine.undo = None
        mine.state["messages"].append(message)
        mine.said.append(message)
        await mine.handle.append("messages", message)

    async def update(self, name: str) -> None:
        mine, value = self.threads[name], self.rng.random()
        mine.undo = None
        mine.state["notes"]["u"] = value
        await mine.handle.update(set={"notes.u": value})

    async def cut(self, name: str) -> None:
        """A summary takes the place of the beginning of the list; what was said stays said."""
        mine = self.threads[name]
        mine.undo = None
        mine.state["messages"] = mine.state["messages"][-self.rng.randrange(1, 4) :]
        self._kept(name, await mine.handle.save(copy.deepcopy(mine.state)))

    async def drop_list(self, name: str) -> None:
        """The list goes as a whole; what was said stays said."""
        mine = self.threads[name]
        mine.undo, mine.state["messages"] = None, []
        self._kept(name, await mine.handle.save(copy.deepcopy(mine.state)))

    async def mark(self, name: str) -> None:
        self._kept(name, await self.threads[name].handle.checkpoint(kind="routine", note="marked"))

    async def fork(self, name: str) -> None:
        mine, target = self.threads[name], f"fork {len(self.log)}"
        if len(self.threads) > 4 or not (found := await self._some_point(name)):
            return
        state, said, _ = mine.points[found.id]
        handle = await mine.handle.fork(found, to=target)
        # Marks made later than the version that was forked from are not in the fork.
        listed = {each.id for each in await handle.history(limit=10_000, everything=True)}
        points = {at: point for at, point in mine.points.items() if at in listed}
        self.threads[target] = Copy(handle, copy.deepcopy(state), list(said), points)
        mine.forked.add(found.id)
        assert await handle.load() == state

    async def _some_point(self, name: str) -> Checkpoint | None:
        found = await self.threads[name].handle.history(limit=10_000, everything=True)
        return self.rng.choice(found) if found else None

    async def rewind(self, name: str) -> None:
        mine, found = self.threads[name], await self._some_point(name)
        if found is None or found.id not in mine.points:
            return
        before = (copy.deepcopy(mine.state), list(mine.said))
        state, said, _ = mine.points[found.id]
        done = await mine.handle.rewind(found)
        mine.state, mine.said, mine.undo = copy.deepcopy(state), list(said), before
        mine.points[done.checkpoint or ""] = (copy.deepcopy(state), list(said), 0)

    async def redo(self, name: str) -> None:
        mine = self.threads[name]
        if mine.undo is None:
            return
        before = (copy.deepcopy(mine.state), list(mine.said))
        try:
            done = await mine.handle.redo()
        except NotFoundError:
            return  # what it would go back to was pruned, or belongs to the parent of a fork
        (mine.state, mine.said), mine.undo = mine.undo, before
        mine.points[done.checkpoint or ""] = (copy.deepcopy(mine.state), list(mine.said), 0)

    async def after(self, name: str) -> None:
        """Somebody restored an old point and saves."""
        mine, found = self.threads[name], await self._some_point(name)
        if found is None or found.id not in mine.points:
            return
        state, said, _ = mine.points[found.id]
        mine.state, mine.said = copy.deepcopy(state), list(said)
        self._change(mine)
        self._kept(name, await mine.handle.save(copy.deepcopy(mine.state), after=found))

    async def tag(self, name: str) -> None:
        found = await self._some_point(name)
        if found is not None:
            tag = f"t{self.rng.randrange(3)}"
            await self.threads[name].handle.tag(found, tag)
            self.threads[name].tags[tag] = found.id

    async def untag(self, name: str) -> None:
        mine = self.threads[name]
        if mine.tags:
            tag = self.rng.choice(sorted(mine.tags))
            del mine.tags[tag]
            await mine.handle.untag(tag)

    async def prune(self, name: str) -> None:
        mine, keep = self.threads[name], self.rng.randrange(4)
        own = [each.id for each in await mine.handle.history(limit=10_000, everything=True) if each.id in mine.points]
        policy = self.rng.choice([keep, Retention(last=keep), Retention(kinds={"routine": Retention(last=1)})])
        plan = await mine.handle.plan(policy)
        await mine.handle.prune(policy)
        await self._check_pruned(name, own, {verdict.point.id for verdict in plan.dropped})

    async def _check_pruned(self, name: str, before: list[str], dropped: set[str]) -> None:
        mine = self.threads[name]
        left = {each.id for each in await mine.handle.history(limit=10_000, everything=True)}
        assert not dropped & left, "what was to go is still listed"
        assert set(before) - dropped <= left, "what was to stay is gone"
        for each in (*mine.tags.values(),):
            assert each in left or each not in before, "a tagged point is gone"
        await self.check(name)

    async def delete(self, name: str) -> None:
        if len(self.threads) > 1:
            assert await self.threads.pop(name).handle.delete()

    async def compact(self, name: str) -> None:
        if self.rng.random() < 0.3:
            await self.store.compact()

    async def check(self, name: str) -> None:
        """Every point that is listed loads as it was made."""
        mine = self.threads[name]
        handle = self.store.thread(name, user=self.user)
        assert await handle.load() == mine.state
        assert await handle.messages() == mine.said
        for point in await handle.history(limit=10_000, everything=True):
            if point.id in mine.points:
                assert await handle.load(point) == mine.points[point.id][0], point
