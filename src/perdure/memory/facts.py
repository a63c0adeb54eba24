"""Facts: what is remembered of a user across threads, how a fact is stored, and when it holds.

A fact is a message of a log of its own, one log per user. A later fact may supersede earlier ones: they hold until it
begins, and stay in the history. Everything here is a pure rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from perdure.core.errors import InvalidFilterError, InvalidInputError, short_repr
from perdure.core.identity import check_id, check_label
from perdure.core.times import to_datetime, to_micros

Kind = Literal["preference", "fact", "outcome", "procedure"]
KINDS: tuple[str, ...] = get_args(Kind)
MAX_TEXT_CHARACTERS = 8_000
MAX_TAGS = 32
_SPACES = re.compile(r"\s+")
_FIELDS = ("kind", "agent", "author", "subject")  # what a filter may name beside tags, thread and metadata


class Source(msgspec.Struct, frozen=True):
    """Where a fact comes from: a thread, and the version of an entry in it."""

    thread: str | None = None
    entry: int | None = None

    def __str__(self) -> str:
        if self.thread is None:
            return "stated directly"
        return f"thread {self.thread}" if self.entry is None else f"thread {self.thread}, entry {self.entry}"


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is remembered of a user."""

    id: str
    text: str
    kind: str = "fact"
    source: Source = Source()
    author: str | None = None  # who stated it
    user: str | int | None = None
    agent: str | None = None
    tags: tuple[str, ...] = ()
    subject: str | None = None  # of the facts about one subject, only the newest holds
    metadata: Mapping[str, Any] = {}
    valid_from: datetime
    valid_to: datetime | None = None
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    confidence: float = 1.0
    mentions: int = 1  # how often it was stated
    created: datetime
    version: int  # of its newest entry in the log of facts

    def __str__(self) -> str:
        return self.text

    def __getitem__(self, name: str) -> Any:
        """A field by its name, or a value of the metadata."""
        return getattr(self, name) if name in self.__struct_fields__ else self.metadata[name]

    def holds_at(self, at: datetime) -> bool:
        """Whether the fact is valid at a time."""
        return self.valid_from <= at and (self.valid_to is None or at < self.valid_to)


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact before it is written. Times are microseconds."""

    id: str
    text: str
    kind: str = "fact"
    source: Source = Source()
    author: str | None = None
    agent: str | None = None
    tags: tuple[str, ...] = ()
    subject: str | None = None
    metadata: Mapping[str, Any] = {}
    valid_from: int | None = None  # None: from the time it was written
    valid_to: int | None = None
    supersedes: tuple[str, ...] = ()
    confidence: float = 1.0
    mentions: int = 1
    vector: bytes | None = None
    embedder: str | None = None  # which embedder made the vector


def body_of(fact: NewFact) -> dict[str, Any]:
    """The message that a fact is stored as; fields with their default value are left out."""
    told: dict[str, Any] = {
        name: getattr(fact, name)
        for name in fact.__struct_fields__
        if name not in ("id", "text", "kind", "source") and getattr(fact, name) != getattr(_BLANK, name)
    }
    if fact.source != Source():
        told["source"] = [fact.source.thread, fact.source.entry]
    return {"id": fact.id, "role": fact.kind, "content": fact.text, "metadata": _plain(told)}


def fact_in(body: Mapping[str, Any]) -> NewFact:
    """The fact that a stored message is."""
    told = dict(body["metadata"])
    source = Source(*told.pop("source", (None, None)))
    for name in ("tags", "supersedes"):
        told[name] = tuple(told.get(name, ()))
    return NewFact(id=body["id"], kind=body["role"], text=body["content"], source=source, **told)


_BLANK = NewFact(id="", text="")


def _plain(told: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


def check_text(text: object) -> str:
    """The text of a fact; raise `InvalidInputError` for one that cannot be kept."""
    if type(text) is not str or not text.strip():
        raise InvalidInputError(f"the text of a fact must be a str that is not empty, not {short_repr(text)}")
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidInputError(f"the text of a fact has at most {MAX_TEXT_CHARACTERS:,} characters, not {len(text):,}")
    return str(check_label(text.strip(), "the text of a fact"))


def check_kind(kind: object) -> str:
    """One of the four kinds; raise `InvalidInputError` naming them."""
    if kind not in KINDS:
        raise InvalidInputError(f"kind must be one of {', '.join(KINDS)}, not {short_repr(kind)}")
    return str(kind)


def check_tags(tags: object) -> tuple[str, ...]:
    """Tags, each once."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidInputError(f"tags must be a list of str, not {short_repr(tags)}")
    checked = tuple(dict.fromkeys(check_id(tag, "a tag") for tag in tags))
    if len(checked) > MAX_TAGS:
        raise InvalidInputError(f"a fact has at most {MAX_TAGS} tags, not {len(checked)}")
    return checked


def check_confidence(confidence: object) -> float:
    """A number from 0 to 1."""
    if type(confidence) not in (int, float) or not 0 <= confidence <= 1:  # type: ignore[operator]
        raise InvalidInputError(f"confidence must be a number from 0 to 1, not {short_repr(confidence)}")
    return float(confidence)  # type: ignore[arg-type]


def check_source(source: object) -> Source:
    """A source; a text is a thread, a pair a thread and the version of an entry."""
    if source is None or isinstance(source, Source):
        return source or Source()
    thread, entry = source if isinstance(source, tuple) and len(source) == 2 else (source, None)
    if entry is not None and (type(entry) is not int or entry < 1):
        raise InvalidInputError(f"the entry of a source must be a version (an int from 1 on), not {short_repr(entry)}")
    return Source(check_id(thread, "the thread of a source"), entry)


def check_moment(at: object, what: str) -> int | None:
    """A time in microseconds; a naive one is taken as UTC."""
    if at is None or isinstance(at, datetime):
        return None if at is None else to_micros(at)
    raise InvalidInputError(f"{what} must be a datetime, not {short_repr(at)}")


def check_filters(filters: object) -> dict[str, Any]:
    """Conditions on facts; raise `InvalidFilterError` for what is none."""
    if filters is None:
        return {}
    if not isinstance(filters, Mapping):
        raise InvalidFilterError(f"filters must be a dict, not {short_repr(filters)}")
    for name in filters:
        if type(name) is not str:
            raise InvalidFilterError(f"filters are named by a str, not {short_repr(name)}")
    return dict(filters)


def answers(fact: Fact, filters: Mapping[str, Any]) -> bool:
    """Whether all conditions hold: a field of the fact, one or all of some tags, its thread, else its metadata."""
    return all(_answers(fact, name, wanted) for name, wanted in filters.items())


def _answers(fact: Fact, name: str, wanted: Any) -> bool:
    if name in ("tag", "tags"):
        return set([wanted] if isinstance(wanted, str) else wanted) <= set(fact.tags)
    if name == "thread":
        return fact.source.thread == wanted
    if name in _FIELDS:
        value = getattr(fact, name)
        return value in wanted if isinstance(wanted, list | tuple | set) else value == wanted
    return name in fact.metadata and fact.metadata[name] == wanted


def normal(text: str) -> str:
    """A text as duplicates are told by it: without differences of case, spaces and a final stop."""
    return _SPACES.sub(" ", text).strip(" .!").casefold()


def public(new: NewFact, row: tuple[int, int, int, int | None, str | None], user: str | int | None) -> Fact:
    """A fact as its users see it: what was written, and what the log made of it since."""
    version, created, valid_from, valid_to, superseded_by = row
    return Fact(
        id=new.id, text=new.text, kind=new.kind, source=new.source, author=new.author, user=user, agent=new.agent,
        tags=new.tags, subject=new.subject, metadata=new.metadata, valid_from=to_datetime(valid_from),
        valid_to=None if valid_to is None else to_datetime(valid_to), supersedes=new.supersedes,
        superseded_by=superseded_by, confidence=new.confidence, mentions=new.mentions, created=to_datetime(created),
        version=version,
    )  # fmt: skip
