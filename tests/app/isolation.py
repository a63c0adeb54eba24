"""Users, approvers and an unnamed caller who try everything on each other's threads, and what each of them may see.

Each value that is written holds a word that tells whose it is. `World` keeps what was written; every answer of the
store is compared with what the caller may see of it, and nothing in it may hold a word of somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import ANY_USER
from perdure.core.approvers import may_decide
from perdure.errors import (
    AmbiguousThreadError,
    LinkInvalidError,
    NotAllowedError,
    NotFoundError,
    PauseClosedError,
    ThreadExistsError,
    UnfinishedRunError,
)

USERS = ("alice", "bob", "carol")
NOBODY = ""
IDS = ("c", "d", "c@1", "chk_c")
APPROVERS = {"ann": ("finance",), "ben": ()}
WHO = (None, "ann", "group:finance", ["ben", "not:starter"], ["not:ann"], "alice", ["alice", "not:starter"])
EXPECTED = (
    NotFoundError, NotAllowedError, AmbiguousThreadError, PauseClosedError, LinkInvalidError, ThreadExistsError,
    UnfinishedRunError,
)  # fmt: skip
_WORD = re.compile(r"own(\w*?)x\d+")


@dataclass
class Asked:
    """A pause as the world remembers it."""

    owner: str
    thread: str
    who: tuple[str, ...]
    is_open: bool = True


@dataclass
class World:
    """What was written, by owner and id."""

    store: Any
    folder: Path
    threads: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    points: dict[str, tuple[str, str]] = field(default_factory=dict)  # checkpoint id -> owner and thread
    asked: dict[str, Asked] = field(default_factory=dict)
    links: dict[str, tuple[str, str]] = field(default_factory=dict)  # token -> approver and pause
    count: int = 0

    def word(self, owner: str) -> str:
        self.count += 1
        return f"own{owner}x{self.count}"

    def said(self, owner: str) -> set[str]:
        return {word for (whose, _), words in self.threads.items() if whose == owner for word in words}

    def busy(self, owner: str, thread: str) -> bool:
        return any(each.is_open and (each.owner, each.thread) == (owner, thread) for each in self.asked.values())

    async def close(self, asked: Asked) -> None:
        """A decision was made: the run goes on to its end."""
        asked.is_open = False
        await self.store.resume(asked.thread, user=asked.owner)


def owners_in(answer: object) -> set[str]:
    """Whose words an answer holds."""
    return set(_WORD.findall(repr(answer)))


async def outcome(work: Awaitable[Any]) -> Any:
    """What a call gave, or the kind of error it ended in."""
    try:
        return await work
    except EXPECTED as exc:
        refused = exc
    assert not owners_in(refused), refused
    return type(refused)


def bare(thread: Any) -> Any:
    """A thread as its users hold it."""
    return getattr(thread, "_inner", thread)


def register(store: Any, mode: str) -> None:
    """The handler that asks a person."""

    def asks(run: Any) -> Any:
        return run.pause("pay", ask=run.input["ask"], args={"note": run.input["ask"]}, who=run.input["who"])

    async def asks_async(run: Any) -> bool:
        return bool(await asks(run))

    bare(store).handler("ask")((lambda run: bool(asks(run))) if mode == "sync" else asks_async)


class Caller:
    """One who calls: a user by a scope or by name, or somebody who names nobody."""

    def __init__(self, world: World, user: str, *, scoped: bool) -> None:
        self.world, self.user = world, user
        self.scope = world.store.scope(user=user) if scoped and user else world.store
        self.named: dict[str, Any] = {} if scoped or not user else {"user": user}

    def check(self, answer: object) -> None:
        assert owners_in(answer) <= {self.user}, (self.user, answer)

    def thread(self, thread: str) -> Any:
        return self.scope.thread(thread, **self.named)

    async def append(self, thread: str, other: str) -> None:
        word = self.world.word(self.user)
        await self.thread(thread).append("messages", {"role": "user", "content": f"secret {word}"})
        self.world.threads.setdefault((self.user, thread), []).append(word)

    async def mark(self, thread: str, other: str) -> None:
        if (self.user, thread) in self.world.threads:
            made = await self.thread(thread).checkpoint(note="here")
            self.world.points[made.id] = (self.user, thread)

    async def load(self, thread: str, other: str) -> None:
        got = await outcome(self.thread(thread).load())
        known = self.world.threads.get((self.user, thread))
        words = got if got is NotFoundError else [each["content"].split()[1] for each in got["messages"]]
        assert words == (NotFoundError if known is None else known)

    async def messages(self, thread: str, other: str) -> None:
        got = await outcome(self.thread(thread).messages(search="secret"))
        known = self.world.threads.get((self.user, thread), [])
        assert got is NotFoundError or [each["content"].split()[1] for each in got] == known
        assert got is not NotFoundError or not known

    async def threads(self, thread: str, other: str) -> None:
        if self.user:
            got = await self.scope.threads(**self.named)
            assert {each.id for each in got} == {each for whose, each in self.world.threads if whose == self.user}

    async def search(self, thread: str, other: str) -> None:
        if self.user:
            got = await self.scope.search("secret", limit=1000, **self.named)
            assert {each.message["content"].split()[1] for each in got} == self.world.said(self.user)
            counted = await self.scope.analytics(**self.named)
            assert counted.messages == len(got)

    async def fork(self, thread: str, other: str) -> None:
        known, target = self.world.threads.get((self.user, thread)), f"{other}-fork"
        got = await outcome(self.thread(thread).fork(to=target))
        if known is None:
            assert got is NotFoundError
        elif (self.user, target) in self.world.threads:
            assert got is ThreadExistsError
        else:
            self.world.threads[self.user, target] = list(known)

    async def delete(self, thread: str, other: str) -> None:
        if not self.world.busy(self.user, thread):
            await outcome(self.thread(thread).delete())
            self.world.threads.pop((self.user, thread), None)

    async def compare(self, thread: str, other: str) -> None:
        known = [self.world.threads.get((self.user, each)) for each in (thread, other)]
        got = await outcome(self.scope.compare(*(bare(self.thread(each)) for each in (thread, other)), **self.named))
        self.check(got)
        assert (got is NotFoundError) == (None in known)

    async def compare_texts(self, thread: str, other: str) -> None:
        """In a text, `c@1` is version 1 of the thread `c`."""
        got = await outcome(self.scope.compare("c@1", "d@1", **self.named))
        self.check(got)
        known = [(self.user, each) in self.world.threads for each in "cd"]
        assert (got is NotFoundError) == (not all(known))

    async def compare_points(self, thread: str, other: str) -> None:
        for point, (whose, where) in self.world.points.items():
            if (whose, where) in self.world.threads:
                got = await outcome(self.scope.compare(point, f"@{point}", **self.named))
                assert (got is NotFoundError) == (whose != self.user), (self.user, whose, got)

    async def others_handles(self, thread: str, other: str) -> None:
        """A handle of somebody else's is worth nothing to a scope, nor beside a user's name."""
        for whose in USERS:
            if self.user and whose != self.user:
                handle = bare(self.world.store.thread(thread, user=whose))
                for call in (self.scope.cancel, self.scope.resume, self.scope.why, self.scope.pauses):
                    assert await outcome(call(handle, **self.named)) is NotFoundError
                assert await outcome(self.scope.compare(handle, handle, **self.named)) is NotFoundError

    async def export(self, thread: str, other: str) -> None:
        path = self.world.folder / f"{self.world.count}.perdure"
        self.world.count += 1
        got = await outcome(self.scope.export(thread, path, **self.named))
        known = self.world.threads.get((self.user, thread))
        assert (got is NotFoundError) == (known is None)
        assert got is not NotFoundError or not path.exists()

    async def why(self, thread: str, other: str) -> None:
        got = await outcome(self.scope.why(thread, **self.named))
        self.check(got)
        assert (got is NotFoundError) == ((self.user, thread) not in self.world.threads)

    async def ask(self, thread: str, other: str) -> None:
        if (self.user, thread) not in self.world.threads or self.world.busy(self.user, thread):
            return
        who = WHO[self.world.count % len(WHO)]
        if not self.user and who is not None and "not:starter" in who:
            who = None  # nobody knows who started it
        word = self.world.word(self.user)
        self.world.threads[self.user, thread].append(word)
        await self.thread(thread).append("messages", {"role": "user", "content": f"secret {word}"})
        await self.scope.start("ask", {"ask": f"pay {word}?", "who": who}, thread=thread, **self.named)
        await self.world.store.recover()
        (pause,) = await self.world.store.pauses(thread, user=self.user or "")
        self.world.asked[pause.id] = Asked(self.user, thread, pause.who)

    async def pauses(self, thread: str, other: str) -> None:
        mine = {name for name, each in self.world.asked.items() if each.is_open and each.owner == self.user}
        if self.user:
            got = await self.scope.pauses(**self.named)
            self.check(got)
            assert {each.id for each in got} == mine
        here = await outcome(self.scope.pauses(thread, **self.named))
        assert {each.id for each in here} == {each for each in mine if self.world.asked[each].thread == thread}

    async def decide(self, thread: str, other: str) -> None:
        by = {} if "user" not in self.named and self.user else {"by": self.user or "somebody"}
        for name, each in list(self.world.asked.items()):
            got = await outcome(self.scope.decide(name, approved=True, **by, **self.named))
            expected = self._expected(each)
            assert got is expected or (expected is None and got.by == (self.user or "somebody")), (got, expected)
            if expected is None:
                await self.world.close(each)
                break

    def _expected(self, each: Asked) -> type | None:
        if each.owner != self.user:
            return NotFoundError
        if not each.is_open:
            return PauseClosedError
        return None if may_decide(each.who, self.user or "somebody") else NotAllowedError


class Deciding:
    """An approver with a scope of their own."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.groups = world, name, APPROVERS[name]
        self.scope = world.store.scope(approver=name, groups=self.groups)

    def mine(self) -> dict[str, Asked]:
        return {each: asked for each, asked in self.world.asked.items() if self._may(asked)}

    def _may(self, asked: Asked) -> bool:
        return may_decide(asked.who, self.name, self.groups)

    async def pauses(self, thread: str, other: str) -> None:
        got = await self.scope.pauses(limit=1000)
        assert {each.id for each in got} == {name for name, each in self.mine().items() if each.is_open}
        assert all(owners_in(each) <= {each.user or ""} for each in got)

    async def look(self, thread: str, other: str) -> None:
        for name, each in self.world.asked.items():
            got = await outcome(self.scope.pause(name))
            kind = NotFoundError if not self._may(each) else None if each.is_open else PauseClosedError
            assert got is kind or (kind is None and got.id == name)

    async def link(self, thread: str, other: str) -> None:
        for name, each in self.world.asked.items():
            got = await outcome(self.scope.link(name))
            if self._may(each) and each.is_open:
                self.world.links[got] = (self.name, name)
            else:
                assert got is (PauseClosedError if self._may(each) else NotFoundError)

    async def follow(self, thread: str, other: str) -> None:
        for token, (approver, name) in self.world.links.items():
            got = await outcome(self.scope.linked(token))
            is_open = self.world.asked[name].is_open
            expected = LinkInvalidError if approver != self.name else None if is_open else PauseClosedError
            assert got is expected or (expected is None and got.id == name)

    async def decide(self, thread: str, other: str) -> None:
        for name, each in self.world.asked.items():
            got = await outcome(self.scope.decide(name, approved=False))
            kind = NotFoundError if not self._may(each) else None if each.is_open else PauseClosedError
            assert got is kind or (kind is None and got.by == self.name)
            if kind is None:
                await self.world.close(each)
                break


async def trusted(world: World, thread: str) -> None:
    """Trusted code gets the only thread of an id, and is told of several users."""
    whose = [owner for owner, each in world.threads if each == thread]
    got = await outcome(world.store.thread(thread, user=ANY_USER).load())
    if len(whose) == 1:
        assert owners_in(got) <= {whose[0]}
    else:
        assert got is (AmbiguousThreadError if whose else NotFoundError)


Play = Callable[[World, str, str], Awaitable[None]]


def _user(user: str, scoped: bool, name: str) -> Play:
    return lambda world, thread, other: getattr(Caller(world, user, scoped=scoped), name)(thread, other)


def _approver(approver: str, name: str) -> Play:
    return lambda world, thread, other: getattr(Deciding(world, approver), name)(thread, other)


def _named(cls: type) -> list[str]:
    return [name for name in vars(cls) if not name.startswith("_") and name not in ("check", "thread", "mine")]


PLAYS: list[Play] = [
    *(_user(user, scoped, name) for user in USERS for scoped in (True, False) for name in _named(Caller)),
    *(_user(NOBODY, False, name) for name in _named(Caller) * 2),
    *(_user(user, True, name) for user in (*USERS, NOBODY) for name in ("append", "append", "ask", "ask", "mark")),
    *(_approver(approver, name) for approver in APPROVERS for name in _named(Deciding) * 3),
    *[lambda world, thread, other: trusted(world, thread)] * 4,
]
