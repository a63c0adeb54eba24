"""The memory of a user for synchronous code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.core.errors import InvalidInputError, short_repr
from perdure.memory import manager as memory
from perdure.memory.context import CountTokens, estimated_tokens
from perdure.memory.embedders import Embedder
from perdure.memory.extraction import Pattern
from perdure.memory.facts import Fact, Source
from perdure.memory.manager import MemoryStats, UserId
from perdure.memory.ranking import Hit, Signals
from perdure.runtime.agents.model import Model

if TYPE_CHECKING:
    from perdure.sync.store import Perdure

_Source = Source | tuple[str, int] | str | None


class MemoryManager:
    """`perdure.memory.MemoryManager` for synchronous code."""

    def __init__(
        self,
        store: Perdure,
        *,
        user: UserId | None = None,
        agent: str | None = None,
        embedder: Embedder | None = None,
        model: Model | None = None,
        patterns: Iterable[Pattern] = (),
        signals: Signals | None = None,
    ) -> None:
        from perdure.sync.store import Perdure, inside

        if not isinstance(store, Perdure):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"this MemoryManager takes an open perdure.sync.Perdure, not {short_repr(store)}")
        opened, self._run = inside(store)
        self.inner = memory.MemoryManager(
            opened, user=user, agent=agent, embedder=embedder, model=model, patterns=patterns, signals=signals
        )

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def user(self) -> UserId | None:
        """Whose memory it is."""
        return self.inner.user

    def for_user(self, user: UserId) -> MemoryManager:
        """The memory of another user, with the same embedder, model, patterns and signals."""
        made = object.__new__(MemoryManager)
        made._run, made.inner = self._run, self.inner.for_user(user)
        return made

    def add_text(
        self,
        text: str,
        *,
        kind: str = "fact",
        tags: Iterable[str] = (),
        source: _Source = None,
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
        """Remember a text, and return the fact."""
        return self._run(
            self.inner.add_text(
                text,
                kind=kind,
                tags=tags,
                source=source,
                author=author,
                agent=agent,
                subject=subject,
                metadata=metadata,
                valid_from=valid_from,
                valid_to=valid_to,
                supersedes=supersedes,
                confidence=confidence,
                id=id,
            )
        )

    def add_messages(self, messages: Iterable[Any], *, source: _Source = None, tags: Iterable[str] = ()) -> list[Fact]:
        """Remember what users and assistants said, word for word; long messages in pieces."""
        return self._run(self.inner.add_messages(messages, source=source, tags=tags))

    def add_with_extraction(self, messages: Any, *, source: _Source = None, tags: Iterable[str] = ()) -> list[Fact]:
        """Remember the facts that messages, or a text, state, and return those that hold now."""
        return self._run(self.inner.add_with_extraction(messages, source=source, tags=tags))

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        filters: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        superseded: bool = False,
        signals: Signals | None = None,
    ) -> list[Hit]:
        """The facts that answer a query best, with why each was found."""
        return self._run(
            self.inner.search(query, limit, filters=filters, as_of=as_of, superseded=superseded, signals=signals)
        )

    def get(self, fact_id: str) -> Fact:
        """The fact of an id; raise `NotFoundError` when this user has none of it."""
        return self._run(self.inner.get(fact_id))

    def get_all(
        self,
        limit: int | None = None,
        *,
        filters: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        superseded: bool = False,
    ) -> list[Fact]:
        """The facts that hold, now or `as_of` a time, the newest first; with `superseded=True` all that are known."""
        return self._run(self.inner.get_all(limit, filters=filters, as_of=as_of, superseded=superseded))

    def history(self, fact_id: str) -> list[Fact]:
        """A fact with all that it superseded and all that superseded it since, the oldest first."""
        return self._run(self.inner.history(fact_id))

    def stats(self) -> MemoryStats:
        """What is remembered, in numbers."""
        return self._run(self.inner.stats())

    def update(
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
        source: _Source = None,
        author: str | None = None,
    ) -> Fact:
        """Correct a fact. A new `text` is a new fact that supersedes it; anything else changes the fact itself."""
        return self._run(
            self.inner.update(
                fact_id,
                text,
                kind=kind,
                tags=tags,
                metadata=metadata,
                valid_from=valid_from,
                valid_to=valid_to,
                confidence=confidence,
                source=source,
                author=author,
            )
        )

    def delete(self, fact_id: str) -> bool:
        """Delete a fact with everything that it superseded; False when this user has none of this id."""
        return self._run(self.inner.delete(fact_id))

    def delete_all(self) -> int:
        """Delete the whole memory of this user with its log, and return how many facts there were."""
        return self._run(self.inner.delete_all())

    def build_context(
        self,
        query: str = "",
        max_tokens: int = 500,
        *,
        limit: int = 50,
        filters: Mapping[str, Any] | None = None,
        as_of: datetime | None = None,
        count_tokens: CountTokens = estimated_tokens,
    ) -> str:
        """The block of facts for a prompt, at most `max_tokens` long; "" when nothing is remembered."""
        return self._run(
            self.inner.build_context(
                query, max_tokens, limit=limit, filters=filters, as_of=as_of, count_tokens=count_tokens
            )
        )
