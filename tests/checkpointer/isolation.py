"""Three users, somebody without a name and trusted code who try everything on each other's threads.

Each value that is written holds a word that tells whose it is. `World` keeps what was written; every answer of a
checkpointer is compared with what the caller may see of it, and nothing in it may hold a word of somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from perdure.checkpointer import AgentState, Message, ThreadInfo
from perdure.errors import AmbiguousThreadError, InvalidInputError, NotFoundError, ThreadExistsError
from tests.checkpointer.places import Face

USERS = ("alice", "bob", "carol")
NOBODY = ""
IDS = ("c", "d", "c@1", "results")
CALL, SPACE, KEY = "call", "geo", "oslo"
EXPECTED = (AmbiguousThreadError, InvalidInputError, NotFoundError, ThreadExistsError)
_WORD = re.compile(r"own(\w*?)x\d+")
_ABSENT: Any = object()
Owner = str | type[Exception]  # whom a config means, or how it is refused


@dataclass
class Known:
    """A thread as the world remembers it."""

    state: str | None = None
    messages: list[str] = field(default_factory=list)
    name: str | None = None


@dataclass
class World:
    """What was written, by owner and id."""

    face: Face
    isolated: bool
    threads: dict[tuple[str, str], Known] = field(default_factory=dict)
    results: dict[tuple[str, str], str] = field(default_factory=dict)
    cached: dict[str, str] = field(default_factory=dict)
    points: list[tuple[str, Any]] = field(default_factory=list)  # owner and checkpoint
    count: int = 0

    def word(self, owner: str) -> str:
        self.count += 1
        return f"own{owner}x{self.count}"

    def made(self, owner: str, thread: str) -> Known:
        return self.threads.setdefault((owner, thread), Known())

    def said(self, owner: str) -> set[str]:
        return {word for (whose, _), known in self.threads.items() if whose == owner for word in known.messages}


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


def id_of(word: str) -> str:
    """The id of the message that says a word; it tells nothing."""
    return "m" + word.rpartition("x")[2]


def said(word: str) -> Message:
    return Message.text_message(word, id=id_of(word))


def words(messages: list[Message]) -> list[str]:
    return [each.text() for each in messages]


class Caller:
    """One who calls with configs of its own."""

    def __init__(self, world: World, named: dict[str, Any]) -> None:
        self.world, self.face, self.named = world, world.face, named

    def config(self, thread: str) -> dict[str, Any]:
        return {"thread_id": thread, "run_id": "r", **self.named}

    def owner(self, thread: str, *, counts_results: bool = False) -> Owner:
        """Whom a config of this caller means: the user it names, nobody, or the owner of the only thread."""
        user = self.named.get("user_id")
        if self.world.isolated and not user:
            return InvalidInputError
        if user is not None:
            return user
        known = [*self.world.threads, *(self.world.results if counts_results else ())]
        owners = {whose for whose, id in known if id == thread}
        return AmbiguousThreadError if len(owners) > 1 else owners.pop() if owners else NOBODY

    async def _reads(self, owner: Owner, call: Awaitable[Any], seen: Callable[[str], Any], told: Any = None) -> None:
        """A call gives what its owner has, or is refused. `told` makes of an answer what is compared."""
        got = await outcome(call)
        if not isinstance(owner, str):
            assert got is owner, (got, owner)
            return
        assert owners_in(got) <= {owner}, (owner, got)
        assert (told(got) if told and not isinstance(got, type) else got) == seen(owner), (owner, got)

    async def _writes(
        self, owner: Owner, call: Callable[[str], Awaitable[Any]], then: Callable[[str, str], Any]
    ) -> None:
        """A word is written for whom the config means; what is refused writes nothing."""
        word = self.world.word(owner if isinstance(owner, str) else NOBODY)
        got = await outcome(call(word))
        if isinstance(owner, str):
            assert not isinstance(got, type), got
            then(owner, word)
        else:
            assert got is owner, (got, owner)

    async def put_state(self, thread: str, other: str) -> None:
        await self._writes(
            self.owner(thread),
            lambda word: self.face.put_state(self.config(thread), AgentState(context_summary=word)),
            lambda owner, word: setattr(self.world.made(owner, thread), "state", word),
        )

    async def put_checkpoint(self, thread: str, other: str) -> None:
        def then(owner: str, word: str) -> None:
            known = self.world.made(owner, thread)
            known.state = word
            known.messages.append(word)

        def call(word: str) -> Awaitable[Any]:
            return self.face.put_checkpoint(self.config(thread), AgentState(context_summary=word), [said(word)])

        await self._writes(self.owner(thread), call, then)

    async def put_messages(self, thread: str, other: str) -> None:
        await self._writes(
            self.owner(thread),
            lambda word: self.face.put_messages(self.config(thread), [said(word)]),
            lambda owner, word: self.world.made(owner, thread).messages.append(word),
        )

    async def put_thread(self, thread: str, other: str) -> None:
        await self._writes(
            self.owner(thread),
            lambda word: self.face.put_thread(self.config(thread), ThreadInfo(thread_id=thread, thread_name=word)),
            lambda owner, word: setattr(self.world.made(owner, thread), "name", word),
        )

    async def put_result(self, thread: str, other: str) -> None:
        await self._writes(
            self.owner(thread, counts_results=True),
            lambda word: self.face.put_tool_result(self.config(thread), CALL, word),
            lambda owner, word: self.world.results.update({(owner, thread): word}),
        )

    async def put_cached(self, thread: str, other: str) -> None:
        await self._writes(
            self.owner(thread, counts_results=True),
            lambda word: self.face.put_cache_value(SPACE, KEY, word, config=self.config(thread)),
            lambda owner, word: self.world.cached.update({owner: word}),
        )

    async def put_cached_for_all(self, thread: str, other: str) -> None:
        await self._writes(
            NOBODY,
            lambda word: self.face.put_cache_value(SPACE, KEY, word),
            lambda owner, word: self.world.cached.update({owner: word}),
        )

    async def get_state(self, thread: str, other: str) -> None:
        for call in (self.face.get_state, self.face.get_state_cache):
            await self._reads(
                self.owner(thread),
                call(self.config(thread)),
                lambda owner: self.world.threads.get((owner, thread), Known()).state,
                lambda got: got and got.context_summary,
            )

    async def get_others_state(self, thread: str, other: str) -> None:
        """By the points of others, whose ids are known."""
        owner = self.owner(thread)
        for whose, point in self.world.points:
            if whose != owner:
                for ref in (point, point.id):
                    call = self.face.get_state(self.config(thread), ref=ref)
                    await self._reads(owner, call, lambda _: NotFoundError)

    async def list_states(self, thread: str, other: str) -> None:
        owner, got = self.owner(thread), await outcome(self.face.list_states(self.config(thread)))
        if isinstance(got, list) and isinstance(owner, str):
            assert {each.user_id or NOBODY for each in got} <= {owner}
            self.world.points += [(owner, each) for each in got[:1]]
        else:
            assert got in (owner, NotFoundError)

    async def messages(self, thread: str, other: str) -> None:
        for filters in ({}, {"run_id": "r"}):
            await self._reads(
                self.owner(thread),
                self.face.list_messages(self.config(thread), **filters),
                lambda owner: self.world.threads.get((owner, thread), Known()).messages,
                words,
            )

    async def others_messages(self, thread: str, other: str) -> None:
        """By the ids of messages of others."""
        owner = self.owner(thread)
        for whose in (*USERS, NOBODY):
            if whose != owner:
                for word in sorted(self.world.said(whose))[:3]:
                    config, id = self.config(thread), id_of(word)
                    await self._reads(owner, self.face.get_message(config, id), lambda _: NotFoundError)
                    await self._reads(owner, self.face.delete_message(config, id), lambda _: False)

    async def search(self, thread: str, other: str) -> None:
        for word in sorted({each for whose in (*USERS, NOBODY) for each in self.world.said(whose)})[:4]:
            await self._reads(
                self.owner(thread, counts_results=True),
                self.face.search(self.config(thread), word),
                lambda owner, word=word: {word} & self.world.said(owner),
                lambda got: {each.message.text() for each in got},
            )

    async def list_threads(self, thread: str, other: str) -> None:
        await self._reads(
            self.owner(thread, counts_results=True),
            self.face.list_threads(self.config(thread)),
            lambda owner: {id for whose, id in self.world.threads if whose == owner},
            lambda got: {each.thread_id for each in got},
        )

    async def get_thread(self, thread: str, other: str) -> None:
        await self._reads(
            self.owner(thread),
            self.face.get_thread(self.config(thread)),
            lambda owner: owner or None if (owner, thread) in self.world.threads else _ABSENT,
            lambda got: _ABSENT if got is None else got.user_id,
        )

    async def get_result(self, thread: str, other: str) -> None:
        await self._reads(
            self.owner(thread, counts_results=True),
            self.face.get_tool_result(self.config(thread), CALL),
            lambda owner: self.world.results.get((owner, thread)),
        )

    async def get_cached(self, thread: str, other: str) -> None:
        owner, config = self.owner(thread, counts_results=True), self.config(thread)
        await self._reads(owner, self.face.get_cache_value(SPACE, KEY, config=config), self.world.cached.get)
        await self._reads(
            owner,
            self.face.list_cache_keys(SPACE, config=config),
            lambda owner: [KEY] if owner in self.world.cached else [],
        )

    async def get_cached_for_all(self, thread: str, other: str) -> None:
        await self._reads(NOBODY, self.face.get_cache_value(SPACE, KEY), self.world.cached.get)

    async def clear_cached(self, thread: str, other: str) -> None:
        owner, config = self.owner(thread, counts_results=True), self.config(thread)
        known = self.world.cached.pop(owner, None) if isinstance(owner, str) else None
        await self._reads(owner, self.face.clear_cache_value(SPACE, KEY, config=config), lambda _: known is not None)

    async def clean(self, thread: str, other: str) -> None:
        owner = self.owner(thread, counts_results=True)
        known = self.world.threads.pop((owner, thread), None) if isinstance(owner, str) else None
        self.world.results.pop((str(owner), thread), None)
        await self._reads(owner, self.face.clean_thread(self.config(thread)), lambda _: known is not None)

    async def clear_state(self, thread: str, other: str) -> None:
        owner = self.owner(thread)
        known = self.world.threads.get((owner, thread)) if isinstance(owner, str) else None
        await self._reads(owner, self.face.clear_state(self.config(thread)), lambda _: None)
        if known is not None:
            known.state = None

    async def repair(self, thread: str, other: str) -> None:
        owner = self.owner(thread)
        call = self.face.repair_conversation(self.config(thread))
        told = lambda got: words(got.context)  # noqa: E731
        await self._reads(owner, call, lambda owner: self.world.made(owner, thread).messages, told)
        if isinstance(owner, str):
            known = self.world.made(owner, thread)
            known.state = known.state or ""

    async def fork(self, thread: str, other: str) -> None:
        owner, target = self.owner(thread), f"{other}-fork"
        got = await outcome(self.face.fork(self.config(thread), target))
        known = self.world.threads.get((owner, thread)) if isinstance(owner, str) else None
        if not isinstance(owner, str):
            assert got is owner
        elif known is None:
            assert got is NotFoundError
        elif (owner, target) in self.world.threads:
            assert got is ThreadExistsError
        else:
            assert got == self.config(target)
            self.world.threads[owner, target] = Known(known.state, list(known.messages))


CONFIGS: list[dict[str, Any]] = [
    *({"user_id": user} for user in USERS for _ in range(2)),
    {"user_id": NOBODY}, {"user_id": None}, {},
]  # fmt: skip
CALLS = [name for name in vars(Caller) if not name.startswith("_") and name not in ("config", "owner")]
PLAYS = [(config, name) for config in CONFIGS for name in (*CALLS, *(each for each in CALLS if each.startswith("put")))]
THREADS = (*IDS, *(f"{id}-fork" for id in IDS[:2]))


async def play(world: World, number: int, thread: str, other: str) -> None:
    config, name = PLAYS[number]
    await getattr(Caller(world, config), name)(thread, other)
