"""MemoryManager: what is remembered of a user across threads; added, found, corrected, taken back, put into prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, Protocol

import msgspec

from perdure.core.checkpoint import check_limit
from perdure.core.codec import encode
from perdure.core.errors import InvalidIdError, InvalidInputError, NotFoundError, short_repr
from perdure.core.identity import ANY_USER, check_id, check_label
from perdure.core.times import to_datetime
from perdure.memory.context import CountTokens, block_of, estimated_tokens
from perdure.memory.embedders import Embedder, check_embedder, vectors_of
from perdure.memory.extraction import (
    Pattern,
    Rules,
    Spoken,
    Statement,
    question_of,
    read_answer,
    spoken_in,
)
from perdure.memory.facts import (
    MAX_TEXT_CHARACTERS,
    Fact,
    NewFact,
    Source,
    answers,
    check_confidence,
    check_filters,
    check_kind,
    check_moment,
    check_source,
    check_tags,
    check_text,
    normal,
)
from perdure.memory.index import FactIndex
from perdure.memory.log import FactLog, Services
from perdure.memory.ranking import Hit, Signals, search
from perdure.runtime.agents.model import Model, Reply

MAX_METADATA_BYTES = 64 * 1024
_PREFIX = "fact_"
UserId = str | int


class Store(Protocol):
    """An open store, as memory needs it: `perdure.Perdure`."""

    _parts: Any

    @property
    def namespace(self) -> str: ...


class MemoryStats(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a user, in numbers."""

    facts: int  # that hold now
    superseded: int  # in the history, or no longer or not yet valid
    kinds: dict[str, int]  # of those that hold
    entries: int  # of the log of facts
    bytes: int  # of the log of facts


class MemoryManager:
    """The memory of one user: facts with source, validity and history, in the same storage as the threads.

    Nobody else's facts can be reached through it. `embedder` adds search by meaning, `model` lets a model extract facts
    instead of the rules, `patterns` come before the rules of the library, `agent` is noted on what is added.
    """

    def __init__(
        self,
        store: Store,
        *,
        user: UserId | None = None,
        agent: str | None = None,
        embedder: Embedder | None = None,
        model: Model | None = None,
        patterns: Iterable[Pattern] = (),
        signals: Signals | None = None,
    ) -> None:
        services: Any = getattr(store, "_parts", None)
        if services is None or not isinstance(getattr(store, "namespace", None), str):
            raise InvalidInputError(
                f"MemoryManager takes an open perdure.Perdure, not {short_repr(store)}; "
                "for a synchronous one: from perdure.sync import MemoryManager"
            )
        if model is not None and not callable(getattr(model, "reply", None)):
            raise InvalidInputError(f"model must have a method reply(messages, *, tools, settings), {model!r} has none")
        self._services: Services = services
        self._store = store
        self._owner = "" if user is None else services.users.key(user)
        if user is ANY_USER:
            raise InvalidIdError("the user of a memory", "is ANY_USER: a memory is of one user")
        self._agent = check_label(agent, "agent")
        self._embedder = check_embedder(embedder)
        self._model = model
        self._rules = Rules(patterns)
        self._signals = signals or Signals()

    def __repr__(self) -> str:
        return f"MemoryManager(user={self.user!r})"

    @property
    def user(self) -> UserId | None:
        """Whose memory it is; None for one that only makes others, by `for_user`."""
        return self._services.users.shown(self._owner)

    def for_user(self, user: UserId) -> MemoryManager:
        """The memory of another user, with the same embedder, model, patterns and signals."""
        return self.for_key(self._services.users.key(user))

    def for_key(self, owner: str) -> MemoryManager:
        """The same for a user as the key of a thread has it."""
        made = object.__new__(MemoryManager)
        made.__dict__.update(self.__dict__)
        made._owner = owner
        return made

    # Adding.

    async def add_text(
        self,
        text: str,
        *,
        kind: str = "fact",
        tags: Iterable[str] = (),
        source: Source | tuple[str, int] | str | None = None,
        author: str | None = None,
        agent: str | None = None,
        subject: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        supersedes: Iterable[str] = (),
        confidence: float = 1.0,
        id: str | None = None,
    ) -> Fact:
        """Remember a text, and return the fact.

        A text that is known and holds is not kept twice: the known fact gets the tags, and counts one more mention. Of
        the facts about one `subject` only the newest holds; `supersedes` names facts that this one takes the place of.
        With an `id` of your own, a repeated call changes nothing.
        """
        new = NewFact(
            id=self._new_id() if id is None else check_id(id, "the id of a fact"), text=check_text(text),
            kind=check_kind(kind), tags=check_tags(tags), source=check_source(source),
            author=check_label(author, "author"), agent=self._agent if agent is None else check_label(agent, "agent"),
            subject=check_label(subject, "subject"), metadata=_checked_metadata(metadata),
            valid_from=check_moment(valid_from, "valid_from"), valid_to=check_moment(valid_to, "valid_to"),
            supersedes=tuple(check_id(each, "the id of a fact") for each in _listed(supersedes)),
            confidence=check_confidence(confidence),
        )  # fmt: skip
        if new.valid_from is not None and new.valid_to is not None and new.valid_to <= new.valid_from:
            raise InvalidInputError("valid_to must be after valid_from")
        index = await self._read()
        for each in new.supersedes:
            if index.get(each) is None:
                raise _no_fact(each)
        (fact,) = await self._write([new])
        return fact

    async def add_messages(
        self, messages: Iterable[Any], *, source: Source | tuple[str, int] | str | None = None, tags: Iterable[str] = ()
    ) -> list[Fact]:
        """Remember what users and assistants said, word for word; long messages in pieces.

        Messages of tools and systems are left out. `source` is the thread they come from.
        """
        where, labels = check_source(source), check_tags(tags)
        facts = [
            NewFact(id=self._new_id(), text=piece, source=where, author=each.role, agent=self._agent, tags=labels)
            for each in spoken_in(messages)
            for piece in _pieces(each.text)
        ]
        return await self._write(facts)

    async def add_with_extraction(
        self, messages: Any, *, source: Source | tuple[str, int] | str | None = None, tags: Iterable[str] = ()
    ) -> list[Fact]:
        """Remember the facts that messages, or a text, state, and return those that hold now.

        They are found by rules, or by the manager's model. What corrects a known fact supersedes it; "I no longer …"
        ends it.
        """
        spoken = [Spoken("user", messages)] if isinstance(messages, str) else spoken_in(messages)
        where, labels = check_source(source), check_tags(tags)
        stated: list[Fact] = []
        for author, each in await self._extracted(spoken):
            fact = await self._state(each, NewFact(
                id=self._new_id(), text=each.text, kind=each.kind, subject=each.subject, confidence=each.confidence,
                source=where, author=author, agent=self._agent, tags=labels,
            ))  # fmt: skip
            stated += [] if fact is None else [fact]
        index = await self._read()
        now = to_datetime(self._now(index))
        known = [index.get(id) for id in dict.fromkeys(fact.id for fact in stated)]
        return [fact for fact in known if fact is not None and fact.holds_at(now)]

    async def _extracted(self, spoken: Sequence[Spoken]) -> list[tuple[str, Statement]]:
        if self._model is None:
            return [(said.role, each) for said in spoken for each in self._rules.statements(said.text, said.role)]
        if not spoken:
            return []
        reply = await self._asked(self._model, spoken)
        return [("user", each) for each in read_answer(self._model, reply.text)]

    async def _asked(self, model: Model, spoken: Sequence[Spoken]) -> Reply:
        question = question_of(spoken)
        now = getattr(model, "reply_now", None)
        if self._services.mode == "sync" and callable(now):
            return now(question, tools=[], settings={})  # type: ignore[no-any-return]
        return await model.reply(question, tools=[], settings={})

    async def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        if self._embedder is None:
            return []
        return await vectors_of(self._embedder, texts, in_place=self._services.mode == "sync")

    async def _state(self, statement: Statement, new: NewFact) -> Fact | None:
        """Write what a statement says; None where it only ends a fact, or corrects one that nobody knows."""
        index = await self._read()
        now = self._now(index)
        if statement.ends:
            for fact in [*index.about(statement.subject or "", now), index.same(statement.text, now)]:
                if fact is not None and normal(fact.text) == normal(statement.text):
                    await self._change(index, fact.id, valid_to=now)
            return None
        if statement.instead_of is not None:
            old = _with_text(index, statement.instead_of, now)
            if old is None:
                return None
            text = _replaced(old.text, statement.instead_of, statement.text)
            subject = None if old.subject is None else _replaced(old.subject, statement.instead_of, statement.text)
            new = msgspec.structs.replace(new, text=text, kind=old.kind, subject=subject, supersedes=(old.id,))
        (fact,) = await self._write([new])
        return fact

    async def _write(self, facts: Sequence[NewFact]) -> list[Fact]:
        """Write facts at once; a fact that is known is merged into it. Return how they stand then."""
        index = await self._read()
        now = self._now(index)
        planned: dict[str, NewFact] = {}  # by the text that tells duplicates
        ids: list[str] = []
        for new in facts:
            merged = _merged(index, planned.get(normal(new.text)), new, now)
            if merged is not None:
                planned[normal(new.text)] = merged
                ids.append(merged.id)
            else:
                known = index.same(new.text, now) or index.get(new.id)
                ids += [known.id] if known is not None else []
        if planned:
            await self._log().add(await self._with_vectors(list(planned.values())))
            index = await self._read()
        found = (index.get(id) for id in ids)
        return [fact for fact in found if fact is not None]

    async def _with_vectors(self, facts: list[NewFact]) -> list[NewFact]:
        if self._embedder is None:
            return facts
        vectors = await self._vectors([fact.text for fact in facts])
        name = self._embedder.name
        pairs = zip(facts, vectors, strict=True)
        return [msgspec.structs.replace(fact, vector=vector, embedder=name) for fact, vector in pairs]

    # Finding.

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        filters: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        superseded: bool = False,
        signals: Signals | None = None,
    ) -> list[Hit]:
        """The facts that answer a query best, with why each was found.

        Filters are `kind`, `agent`, `author`, `subject`, `thread`, `tags` (all of them), and values of the metadata.
        With `as_of` the facts that held at that time, as far as is known today; with `superseded=True` also those that
        hold no more, each below its successor.
        """
        if type(query) is not str:
            raise InvalidInputError(f"the query must be a str, not {short_repr(query)}")
        count, wanted = check_limit(limit), check_filters(filters)
        index = await self._read()
        at = self._moment(index, as_of)
        vector = None
        if self._embedder is not None and query.strip():
            (vector,) = await self._vectors([query])
        return search(
            index, query, limit=count, at=at, filters=wanted, signals=signals or self._signals,
            superseded=superseded, vector=vector, embedder=self._embedder.name if self._embedder else "",
        )  # fmt: skip

    async def get(self, fact_id: str) -> Fact:
        """The fact of an id; raise `NotFoundError` when this user has none of it."""
        fact = (await self._read()).get(check_id(fact_id, "the id of a fact"))
        if fact is None:
            raise _no_fact(fact_id)
        return fact

    async def get_all(
        self,
        limit: int | None = None,
        *,
        filters: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        superseded: bool = False,
    ) -> list[Fact]:
        """The facts that hold, now or `as_of` a time, the newest first; with `superseded=True` all that are known."""
        wanted, index = check_filters(filters), await self._read()
        at = self._moment(index, as_of)
        found = (fact for fact in (index.all() if superseded else index.valid(at)) if answers(fact, wanted))
        return list(found if limit is None else islice(found, check_limit(limit)))

    async def history(self, fact_id: str) -> list[Fact]:
        """A fact with all that it superseded and all that superseded it since, the oldest first."""
        index = await self._read()
        head = index.head(check_id(fact_id, "the id of a fact"))
        if head is None:
            raise _no_fact(fact_id)
        return [fact for id in index.chain(head.id) if (fact := index.get(id)) is not None]

    async def stats(self) -> MemoryStats:
        """What is remembered, in numbers."""
        log, index = self._log(), await self._read()
        kinds: dict[str, int] = {}
        for fact in index.valid(self._now(index)):
            kinds[fact.kind] = kinds.get(fact.kind, 0) + 1
        row = await self._services.storage.thread(log.key)
        sizes = await self._services.storage.sizes(log.key) if row else None
        valid = sum(kinds.values())
        return MemoryStats(
            facts=valid, superseded=len(index) - valid, kinds=kinds, entries=row.head if row else 0,
            bytes=sizes.entry_bytes if sizes else 0,
        )  # fmt: skip

    # Changing.

    async def update(
        self,
        fact_id: str,
        text: str | None = None,
        *,
        kind: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        confidence: float | None = None,
        source: Source | tuple[str, int] | str | None = None,
        author: str | None = None,
    ) -> Fact:
        """Correct a fact. A new `text` is a new fact that supersedes it; anything else changes the fact itself.

        The old fact stays in the history, and its id still leads to the chain. Raises `NotFoundError`.
        """
        index = await self._read()
        old = index.head(check_id(fact_id, "the id of a fact"))
        if old is None:
            raise _no_fact(fact_id)
        given: dict[str, Any] = {
            "kind": None if kind is None else check_kind(kind),
            "tags": None if tags is None else check_tags(tags),
            "metadata": None if metadata is None else _checked_metadata(metadata),
            "valid_to": check_moment(valid_to, "valid_to"),
            "confidence": None if confidence is None else check_confidence(confidence),
            "source": None if source is None else check_source(source),
            "author": check_label(author, "author"),
        }
        changes = {name: value for name, value in given.items() if value is not None}
        if text is None or normal(check_text(text)) == normal(old.text):
            if valid_from is not None:
                raise InvalidInputError("valid_from is that of a new text: give update a text too")
            await self._change(index, old.id, **changes)
            return await self.get(old.id)
        stored = index.stored(old.id) or NewFact(id=old.id, text=old.text)
        new = msgspec.structs.replace(
            stored, id=self._new_id(), text=check_text(text), supersedes=(old.id,), mentions=1, valid_to=None,
            valid_from=check_moment(valid_from, "valid_from"), vector=None, embedder=None,
        )  # fmt: skip
        new = msgspec.structs.replace(new, **{"source": Source(), **changes})
        await self._log().add(await self._with_vectors([new]))
        return await self.get(new.id)

    async def _change(self, index: FactIndex, fact_id: str, **changes: Any) -> None:
        stored = index.stored(fact_id)
        if stored is not None and changes:
            await self._log().add([msgspec.structs.replace(stored, **changes)])

    async def delete(self, fact_id: str) -> bool:
        """Delete a fact with everything that it superseded; False when this user has none of this id.

        Its text leaves the log, the indexes, vectors and caches; `compact` overwrites the bytes. The log keeps that
        there was a fact. A fact that superseded this one stays.
        """
        log = self._log()
        # The oldest first: were it cut off, what is left is the newest, and nothing old comes back.
        chain = (await self._read()).chain(check_id(fact_id, "the id of a fact"))
        for each in chain:
            await log.take_back(each)
        await log.read()
        return bool(chain)

    async def delete_all(self) -> int:
        """Delete the whole memory of this user with its log, and return how many facts there were."""
        count = len(await self._read())
        await self._log().clear()
        return count

    # Prompts.

    async def build_context(
        self,
        query: str = "",
        max_tokens: int = 500,
        *,
        limit: int = 50,
        filters: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        count_tokens: CountTokens = estimated_tokens,
    ) -> str:
        """The block of facts for a prompt, at most `max_tokens` long; "" when nothing is remembered.

        First come the facts that answer the query, the best first, then the newest others. Each is quoted, with its
        source; the block says that it is data and holds no instructions.
        """
        if type(max_tokens) is not int or max_tokens < 0:
            raise InvalidInputError(f"max_tokens must be an int from 0 on, not {max_tokens!r}")
        hits = await self.search(query, limit, filters=filters, as_of=as_of)
        found = {hit.id: hit.fact for hit in hits}
        others = await self.get_all(limit, filters=filters, as_of=as_of)
        facts = islice(chain(found.values(), (fact for fact in others if fact.id not in found)), limit)
        return block_of(facts, max_tokens, count_tokens)

    # Inside.

    def _log(self) -> FactLog:
        if not self._owner:
            raise InvalidIdError("the user of a memory", "is missing: MemoryManager(store, user=…) or for_user(…)")
        return self._services.memory.of(self._store.namespace, self._owner, self.user)

    async def _read(self) -> FactIndex:
        log = self._log()
        await self._services.ready()
        return await log.read()

    def _now(self, index: FactIndex) -> int:
        # A server's clock may be ahead of ours: what was written a moment ago holds.
        return max(self._services.clock.now(), index.latest)

    def _moment(self, index: FactIndex, as_of: datetime | None) -> int:
        at = check_moment(as_of, "as_of")
        return self._now(index) if at is None else at

    def _new_id(self) -> str:
        return _PREFIX + self._services.engine.ids.sortable()


def _merged(index: FactIndex, planned: NewFact | None, new: NewFact, now: int) -> NewFact | None:
    """What is to be written for a new fact; None when it stands already."""
    known = index.same(new.text, now)
    old = planned or (index.stored(known.id) if known else None)
    if old is None:
        return None if index.get(new.id) is not None else new
    tags = tuple(dict.fromkeys((*old.tags, *new.tags)))
    if planned is None and (old.id == new.id or (new.source.entry is not None and new.source == old.source)):
        return None if tags == old.tags else msgspec.structs.replace(old, tags=tags)  # the same statement again
    return msgspec.structs.replace(
        old, tags=tags, metadata={**old.metadata, **new.metadata}, mentions=old.mentions + 1,
        confidence=max(old.confidence, new.confidence), subject=old.subject or new.subject,
    )  # fmt: skip


def _with_text(index: FactIndex, text: str, at: int) -> Fact | None:
    """The newest fact that has a text."""
    wanted = normal(text)
    return next((fact for fact in index.valid(at) if wanted in normal(fact.text)), None)


def _replaced(text: str, old: str, new: str) -> str:
    at = text.casefold().find(old.casefold())
    return text if at < 0 else text[:at] + new + text[at + len(old) :]


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    rest = text.strip()
    while len(rest) > MAX_TEXT_CHARACTERS:
        cut = rest.rfind(" ", 0, MAX_TEXT_CHARACTERS)
        cut = cut if cut > 0 else MAX_TEXT_CHARACTERS
        pieces.append(rest[:cut])
        rest = rest[cut:].strip()
    return [check_text(each) for each in (*pieces, rest) if each]


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"metadata must be a dict, not {short_repr(metadata)}")
    if len(encode(dict(metadata), root="metadata")) > MAX_METADATA_BYTES:
        raise InvalidInputError(f"the metadata of a fact has at most {MAX_METADATA_BYTES:,} bytes")
    return dict(metadata)


def _listed(ids: Iterable[str]) -> Iterable[str]:
    return (ids,) if isinstance(ids, str) else ids


def _no_fact(fact_id: str) -> NotFoundError:
    return NotFoundError(f"fact {fact_id!r} of this user", "get_all() lists the facts that there are")
