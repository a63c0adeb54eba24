"""Random lives of conversations beside a model that keeps everything that was said.

Whatever was said, said again, taken back, cut from the state, rewound, redone, forked and pruned: the lines that were
read off bit by bit are those that the whole log leads to, and both are the conversation that was had.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure import Checkpoint, Message, Perdure, Retention, Thread
from perdure.app.handle import key_of
from perdure.app.store import parts_of
from perdure.core.errors import NotFoundError
from perdure.testing.clock import ManualClock
from tests.sessions.comparing import check_numbers, check_pages, check_search, named, read, shown

State = dict[str, Any]
WORDS = ("apple", "Pear", "über", "naïve", "snake_case", "東京", "x" * 60, "AND", "NEAR(")
QUERIES = (*WORDS, "pear apple", "東", "!", "%", '"', "nothing", "ÜBER apple", "京 東")
LARGE = 70_000  # characters; kept apart from the entry


@dataclass
class Slot:
    """A message of the conversation: what it is now, and the entries that it was."""

    message: Any
    id: str | None = None  # of one that entries added
    entries: list[int] = field(default_factory=list)  # tokens of them; the last is what it is


@dataclass
class Copy:
    """All that is known of one thread."""

    handle: Thread
    state: State = field(default_factory=lambda: {"messages": [], "n": 0})
    said: list[Slot] = field(default_factory=list)
    points: dict[str, tuple[State, list[Slot]]] = field(default_factory=dict)
    undo: tuple[State, list[Slot]] | None = None  # before the newest change, if that was a rewind
    removed: set[int] = field(default_factory=set)  # what was taken back here, and is another thread's
    numbers: dict[str, int] = field(default_factory=dict)  # by text


class Life:
    """Plays one sequence and compares."""

    def __init__(self, store: Perdure, clock: ManualClock, seed: int) -> None:
        self.store = store
        self.clock = clock
        self.projector = parts_of(store).messages.projector
        self.user = f"life {seed}"
        self.rng = random.Random(seed)
        self.made = 0
        self.tokens: dict[int, tuple[str, str]] = {}  # whose an entry is, and the id it has
        self.emptied: set[int] = set()
        self.threads: dict[str, Copy] = {}
        self.log: list[str] = []

    async def play(self, steps: int) -> None:
        """Play `steps`; a failure names the last things that were done."""
        self.threads["root"] = Copy(self.store.thread("root", user=self.user))
        await self.rng.choice([self.add, self.append, self.save])("root")
        acts = [self.add] * 5 + [self.append] * 4 + [self.save] * 3 + [self.say_again] * 3 + [self.take_back] * 2
        acts += [self.edit, self.edit, self.cut, self.clear, self.mark, self.rewind, self.rewind, self.redo]
        acts += [self.after, self.fork, self.prune, self.prune, self.rename, self.again]
        try:
            for _ in range(steps):
                name = self.rng.choice(sorted(self.threads))
                act = self.rng.choice(acts)
                self.log.append(f"{act.__name__} {name}")
                self.clock.advance(timedelta(seconds=1))
                await act(name)
                if self.rng.random() < 0.4:
                    await self.check(name)
            for name in self.threads:
                await self.check(name)
            await self.check_all()
            report = await self.store.verify(user=self.user)
            assert report.ok, report
        except BaseException as exc:
            exc.add_note(f"{self.user}, {len(self.log)} steps, the last: {'; '.join(self.log[-15:])}")
            raise

    # ── what is said ──────────────────────────────────────────────────────────────────────────────────────────────

    def _text(self) -> str:
        self.made += 1
        words = self.rng.choices(WORDS, k=self.rng.randrange(1, 4))
        large = " large" + "z" * LARGE if self.rng.random() < 0.03 else ""
        return f"text {self.made} {' '.join(words)} {self.rng.choice('!%?')}{large}"

    def _new(self, id: str | None = None) -> Any:
        role = self.rng.choice(["user", "assistant", "tool"])
        if self.rng.random() < 0.5:
            return Message(role, self._text(), id=id)
        return {"role": role, "content": self._text(), **({} if id is None else {"id": id})}

    def _token(self, name: str, id: str | None) -> int:
        token = len(self.tokens)
        self.tokens[token] = (name, id or "")
        return token

    async def add(self, name: str) -> None:
        """Messages that are in no list, some with ids."""
        mine = self.threads[name]
        new = [(id, self._new(id)) for id in (self._maybe_id() for _ in range(self.rng.randrange(1, 4)))]
        mine.said += [Slot(message, id, [self._token(name, id)]) for id, message in new]
        if self.rng.random() < 0.7:
            await mine.handle.add_messages(*(message for _, message in new))
            return
        mine.undo, mine.state["n"] = None, self.rng.random()
        told = [message for _, message in new]
        self._keep(name, await mine.handle.save(copy.deepcopy(mine.state), messages=told))

    def _maybe_id(self) -> str | None:
        return f"m{self.made}.{self.rng.random()}" if self.rng.random() < 0.7 else None

    async def say_again(self, name: str) -> None:
        """The same id again: with the same message, or with another."""
        mine = self.threads[name]
        known = [slot for slot in mine.said if slot.id is not None]
        if not known:
            return
        slot, head = self.rng.choice(known), await self._newest(name)
        slot.message = slot.message if self.rng.random() < 0.3 else self._new(slot.id)
        if await mine.handle.add_messages(slot.message) > head:
            slot.entries = [*slot.entries, self._token(name, slot.id)]

    async def take_back(self, name: str) -> None:
        mine = self.threads[name]
        known = [slot for slot in mine.said if slot.id is not None]
        if not known:
            return
        id = self.rng.choice(known).id or ""
        tokens = {token for token, (_, each) in self.tokens.items() if each == id}
        own = {token for token in tokens if self.tokens[token][0] == name}
        if tokens - own and own:
            return  # said here and there: its place is that of the first one, which is another thread's to empty
        if any(other != name and self._has(other, own) for other in self.threads) and self.rng.random() < 0.5:
            return
        self.emptied |= own
        mine.removed |= tokens - own
        for each in self.threads.values():
            each.said = self._left(each, each.said)
        assert await mine.handle.delete_message(id)
        assert not await mine.handle.delete_message(id)

    def _has(self, name: str, tokens: set[int]) -> bool:
        return any(tokens & set(slot.entries) for slot in self.threads[name].said)

    def _left(self, mine: Copy, said: list[Slot]) -> list[Slot]:
        """What is left of what was said."""
        gone = self.emptied | mine.removed
        return [copy.copy(slot) for slot in said if not slot.entries or slot.entries[-1] not in gone]

    async def append(self, name: str) -> None:
        mine, message = self.threads[name], self._new(self._maybe_id())
        mine.undo = None
        mine.state["messages"].append(message)
        mine.said.append(Slot(message))
        await mine.handle.append("messages", message)

    # ── what becomes of the state ─────────────────────────────────────────────────────────────────────────────────

    def _keep(self, name: str, point: Checkpoint) -> None:
        mine = self.threads[name]
        mine.points[point.id] = self._now(mine)

    def _now(self, mine: Copy) -> tuple[State, list[Slot]]:
        return _copied(mine.state), [copy.copy(slot) for slot in mine.said]

    def _change(self, mine: Copy) -> None:
        mine.undo = None
        for _ in range(self.rng.randrange(3)):
            message = self._new()
            mine.state["messages"].append(message)
            mine.said.append(Slot(message))
        mine.state["n"] = self.rng.random()
        mine.state["note"] = "x" * self.rng.choice([1, 3000])

    async def save(self, name: str) -> None:
        mine = self.threads[name]
        self._change(mine)
        self._keep(name, await mine.handle.save(copy.deepcopy(mine.state)))

    async def cut(self, name: str) -> None:
        mine = self.threads[name]
        mine.undo = None
        mine.state["messages"] = mine.state["messages"][-self.rng.randrange(1, 4) :]
        self._keep(name, await mine.handle.save(copy.deepcopy(mine.state)))

    async def edit(self, name: str) -> None:
        """An item of the list becomes another: it is the same message, unless the state was replaced as a whole."""
        mine = self.threads[name]
        if not mine.state["messages"]:
            return
        at, new = self.rng.randrange(len(mine.state["messages"])), self._new()
        slot = next(slot for slot in mine.said if slot.message is mine.state["messages"][at])
        old, slot.message, mine.state["messages"][at], mine.undo = slot.message, new, new, None
        if self.rng.random() < 0.5:
            await mine.handle.update(set={("messages", at): new})
            return
        point = await mine.handle.save(copy.deepcopy(mine.state))
        if await mine.handle.messages() != [slot.message for slot in mine.said]:
            slot.message = old
            mine.said.append(Slot(new))
        self._keep(name, point)

    async def clear(self, name: str) -> None:
        mine = self.threads[name]
        mine.undo, mine.state["messages"] = None, []
        self._keep(name, await mine.handle.save(copy.deepcopy(mine.state)))

    async def mark(self, name: str) -> None:
        if self.threads[name].points:
            self._keep(name, await self.threads[name].handle.checkpoint(await self._newest(name)))

    async def _newest(self, name: str) -> int:
        """The newest version: a point of it has everything that was said."""
        return (await self.threads[name].handle.info()).version

    async def rename(self, name: str) -> None:
        await self.threads[name].handle.rename(f"name {self.made}")

    async def _some_point(self, name: str) -> Checkpoint | None:
        found = await self.threads[name].handle.history(limit=10_000, everything=True)
        known = [point for point in found if point.id in self.threads[name].points]
        return self.rng.choice(known) if known else None

    async def rewind(self, name: str) -> None:
        mine, found = self.threads[name], await self._some_point(name)
        if found is None:
            return
        before = self._now(mine)
        state, said = mine.points[found.id]
        done = await mine.handle.rewind(found)
        mine.state, mine.said, mine.undo = _copied(state), self._left(mine, said), before
        mine.points[done.checkpoint or ""] = self._now(mine)

    async def redo(self, name: str) -> None:
        mine = self.threads[name]
        if mine.undo is None:
            return
        before = self._now(mine)
        try:
            done = await mine.handle.redo()
        except NotFoundError:
            return  # what it would go back to was pruned, or belongs to the parent of a fork
        state, said = mine.undo
        mine.state, mine.said, mine.undo = state, self._left(mine, said), before
        mine.points[done.checkpoint or ""] = self._now(mine)

    async def after(self, name: str) -> None:
        mine, found = self.threads[name], await self._some_point(name)
        if found is None:
            return
        state, said = mine.points[found.id]
        mine.state, mine.said = _copied(state), self._left(mine, said)
        self._change(mine)
        self._keep(name, await mine.handle.save(copy.deepcopy(mine.state), after=found))

    async def fork(self, name: str) -> None:
        mine, target = self.threads[name], f"fork {len(self.log)}"
        if len(self.threads) > 3 or not (found := await self._some_point(name)):
            return
        state, said = mine.points[found.id]
        handle = await mine.handle.fork(found, to=target)
        listed = {each.id for each in await handle.history(limit=10_000, everything=True)}
        points = {at: point for at, point in mine.points.items() if at in listed}
        made = Copy(handle, _copied(state), [], points)
        made.removed = {token for token in mine.removed if not any(token in slot.entries for slot in said)}
        made.said = self._left(made, said)
        self.threads[target] = made

    async def prune(self, name: str) -> None:
        keep = self.rng.randrange(4)
        await self.threads[name].handle.prune(self.rng.choice([keep, Retention(kinds={"rewind": Retention(last=1)})]))

    async def again(self, name: str) -> None:
        await self.projector.again(await key_of(self.threads[name].handle))

    async def check(self, name: str) -> None:
        """The lines are the conversation that was had."""
        mine = self.threads[name]
        handle = self.store.thread(name, user=self.user)
        lines = await handle.message_lines()
        assert [line.message for line in lines] == [slot.message for slot in mine.said]
        assert await handle.messages() == [slot.message for slot in mine.said]
        rows = await self.projector.lines(await key_of(handle))
        assert list(map(shown, lines)) == list(map(read, rows))
        check_numbers(mine.numbers, lines)
        await check_pages(handle, lines, self.rng.randrange(1, 5))
        await check_search(handle, lines, self.rng.choice(QUERIES))

    async def check_all(self) -> None:
        """A search across threads finds what searches in each do."""
        query = self.rng.choice(QUERIES)
        each = [await self.threads[name].handle.message_lines(search=query) for name in self.threads]
        found = await self.store.search(query, user=self.user, limit=10_000)
        assert sorted(map(named, found)) == sorted(named(line) for lines in each for line in lines)
        assert [line.at for line in found] == sorted((line.at for line in found), reverse=True)


def _copied(state: State) -> State:
    """A state of its own, whose messages are the same objects."""
    return {**state, "messages": list(state["messages"])}
