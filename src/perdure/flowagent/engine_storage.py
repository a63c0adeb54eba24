"""Checkpoints of agents on Perdure's engine: a thread for each agent, and each save stores what changed.

The thread of an agent has its id and user; its state is what the agent holds, with the history under `messages`. The
threads have a namespace of their own, so that an agent never meets another thread of the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self, Unpack

import msgspec

from perdure import sync
from perdure.app.options import StorageOptions
from perdure.app.store import Perdure, parts_of
from perdure.app.thread import Thread
from perdure.core.checkpoint import (
    MAX_LIMIT,
    Checkpoint,
    CheckpointQuery,
    CheckpointRow,
    check_limit,
    read_later,
)
from perdure.core.errors import InvalidInputError, NotFoundError, VersionConflictError
from perdure.core.identity import ThreadKey, check_user
from perdure.core.ports import Clock, Telemetry
from perdure.core.retention_policy import Retention
from perdure.core.threads import ThreadQuery
from perdure.flowagent.binding import Base
from perdure.flowagent.shape import as_given, check_metadata, fields_of, listed, state_of
from perdure.flowagent.storage import CheckpointStorage

NAMESPACE = "flowagent"
_ALL = CheckpointQuery(limit=MAX_LIMIT)
_NOT_FOR_READING = ("pool", "close_pool", "durability", "max_pending", "hot", "cache_ttl", "max_cached_threads")


class EngineStorage(CheckpointStorage):
    """Keeps checkpoints at a storage address; it is reached at the first use."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str = NAMESPACE,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
        **options: Unpack[StorageOptions],
    ) -> None:
        self.clock = clock
        self._store = Perdure.open(url, namespace=namespace, clock=clock, telemetry=telemetry, **options)
        self._parts = parts_of(self._store)
        self._namespace = namespace
        self._url, self._options = url, options
        self._reader: sync.Perdure | None = None

    @property
    def store(self) -> Perdure:
        """The store that checkpoints are kept in; runs of workflows are kept there too."""
        return self._store

    async def row(self, checkpoint_id: str, user_id: str | None) -> CheckpointRow | None:
        """Where a checkpoint of a user (None: of anybody) is kept, None when there is none."""
        return await self._find(checkpoint_id, None if user_id is None else check_user(user_id))

    async def keep_limits(self, newest: Checkpoint) -> None:
        """Drop the checkpoints beyond the limits, after others than a manager saved some."""
        await self._after_a_save(newest)

    async def save(self, checkpoint: Checkpoint) -> str:
        """Keep a checkpoint under the id and the time it has. Raises `KeyReusedError` when another has this id."""
        given = as_given(checkpoint)
        thread = self._thread(checkpoint)
        await thread.save(
            state_of(checkpoint), kind=checkpoint.kind, status=checkpoint.status, metadata=given, key=checkpoint.id
        )
        await self._after_a_save(checkpoint)
        return checkpoint.id

    async def keep(self, draft: Checkpoint, base: Base | None) -> Checkpoint:
        """Save an agent's checkpoint; the engine chooses its id, so that it sorts after all others of the agent."""
        made = await self._saved(draft, base)
        kept = msgspec.structs.replace(
            draft,
            id=made.id,
            timestamp=made.timestamp,
            version=made.version,
            parent_checkpoint_id=made.parent_checkpoint_id,
        )
        await self._after_a_save(kept)
        return kept

    async def _saved(self, draft: Checkpoint, base: Base | None) -> Checkpoint:
        """Save on top of the base if that is still the newest point, which costs nothing to find out; else go back."""
        thread, state = self._thread(draft), state_of(draft)
        metadata = check_metadata(draft.metadata)
        said: dict[str, Any] = {"kind": draft.kind, "status": draft.status, "metadata": metadata}
        if base is None:
            return await thread.save(state, **said)
        try:
            return await thread.save(state, **said, expected=base.version)
        except (VersionConflictError, NotFoundError):
            return await self._saved_after(base, thread, state, said)

    async def _saved_after(self, base: Base, thread: Thread, state: dict[str, Any], said: dict[str, Any]) -> Checkpoint:
        point = await self._find(base.id, check_user(thread.user))
        if point is None or point.thread_id != thread.id:
            return await thread.save(state, **said)  # it was deleted, or is a point of another storage
        while True:
            with suppress(VersionConflictError):  # somebody else saved meanwhile: go back from there
                return await thread.save(state, **said, after=f"@{point.mark.id}")

    async def load(self, checkpoint_id: str) -> Checkpoint | None:
        """The checkpoint of this id with its state, None when there is none.

        Raises `InvalidInputError` for an id that callers of several users chose: `load_of` says whose.
        """
        return await self._loaded(await self._find(checkpoint_id, None))

    async def load_of(self, checkpoint_id: str, user_id: str) -> Checkpoint | None:
        """The same for one user; None for a checkpoint of anybody else."""
        return await self._loaded(await self._find(checkpoint_id, check_user(user_id)))

    async def _loaded(self, row: CheckpointRow | None) -> Checkpoint | None:
        if row is None:
            return None
        state = await self._store.thread(row.thread_id, user=row.user).load(f"@{row.mark.id}")
        return msgspec.structs.replace(listed(row), **fields_of(state, row.mark.id))

    async def list_by_user(self, user_id: str, limit: int = 50, offset: int = 0) -> Sequence[Checkpoint]:
        """Checkpoints of exactly this user, newest first. Their states are not read.

        One of them reads its state when `collected_fields` or another of its agent's fields is first asked for, in
        place: inside an event loop `await load(id)` does the same without holding the loop.
        """
        wanted = min(check_limit(limit) + check_limit(offset, "offset"), MAX_LIMIT)
        rows = await self._rows(check_user(user_id), CheckpointQuery(limit=wanted))
        return [self._lazy(row) for row in rows[offset:]]

    async def delete_by_user(self, user_id: str) -> int:
        """Delete everything of a user, and return how many checkpoints that were."""
        user = check_user(user_id)
        count = len(await self._rows(user, _ALL))
        query = ThreadQuery(namespace=self._namespace, user=user, limit=MAX_LIMIT)
        for row in await self._parts.storage.threads(query):
            await self._store.thread(row.key.id, user=row.key.user).delete()
        return count

    async def delete_older_than(self, moment: datetime) -> int:
        """Delete the checkpoints of all users that are older than `moment`, and return how many."""
        until = _aware(moment)
        old = [row for row in await self._rows(None, _ALL) if _aware(listed(row).timestamp) < until]
        await self._drop(old, Retention())
        return len(old)

    async def close(self) -> None:
        """Let go of files and connections; a second call does nothing."""
        if self._reader is not None:
            self._reader.close()
        await self._store.close()

    async def __aenter__(self) -> Self:
        await self._store.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _after_a_save(self, saved: Checkpoint) -> None:
        """What a limit asks for, once the save stands."""

    async def _keep_newest(self, limit: int, user: str | None) -> None:
        """Drop what a user (None: all of them together) has beyond the newest `limit` checkpoints."""
        rows = await self._rows(user, _ALL)
        if len(rows) > limit:
            await self._drop(rows[limit:], Retention(last=limit, per="store" if user is None else "user"))

    async def _drop(self, rows: Sequence[CheckpointRow], policy: Retention) -> None:
        """Drop checkpoints: a thread that would have none left as a whole, of others what only they need."""
        for key, gone in self._by_thread(rows).items():
            row = await self._parts.storage.thread(key)
            if row is not None and len(await self._parts.storage.checkpoints(key, _ALL)) > len(gone):
                await self._parts.pruner.drop(row, {each.mark.id: each.version for each in gone}, policy)
            else:
                await self._store.thread(key.id, user=key.user).delete()

    def _by_thread(self, rows: Sequence[CheckpointRow]) -> dict[ThreadKey, list[CheckpointRow]]:
        found: dict[ThreadKey, list[CheckpointRow]] = {}
        for row in rows:
            found.setdefault(ThreadKey(self._namespace, row.user, row.thread_id), []).append(row)
        return found

    async def _rows(self, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        await self._parts.ready()
        return await self._parts.storage.user_checkpoints(self._namespace, user, query)

    async def _find(self, checkpoint_id: str, user: str | None) -> CheckpointRow | None:
        """A checkpoint of a user (None: of anybody) by the engine's id, found by an index, or by one that somebody gave
        it, for which all are looked through.
        """
        await self._parts.ready()
        found = await self._parts.storage.checkpoint(self._namespace, user, checkpoint_id)
        if found is not None:
            return found
        named = [row for row in await self._rows(user, _ALL) if listed(row).id == checkpoint_id]
        if len({row.user for row in named}) > 1:
            raise InvalidInputError(f"several users have a checkpoint {checkpoint_id!r}; name one: user_id=…")
        return named[0] if named else None

    def _lazy(self, row: CheckpointRow) -> Checkpoint:
        return read_later(listed(row), lambda: fields_of(self._read(row), row.mark.id))

    def _read(self, row: CheckpointRow) -> Any:
        """Read the state of a checkpoint in place, by a second handle: the first one waits on an event loop."""
        if self._reader is None:
            options: Any = {name: value for name, value in self._options.items() if name not in _NOT_FOR_READING}
            self._reader = sync.Perdure.open(
                self._url, namespace=self._namespace, clock=self.clock, cache_bytes=0, **options
            )
        return self._reader.thread(row.thread_id, user=row.user).load(f"@{row.mark.id}")

    def _thread(self, point: Checkpoint) -> Thread:
        return self._store.thread(str(point.agent_id), user=str(point.user_id), agent=point.agent_type)


def _aware(moment: datetime) -> datetime:
    """A moment that can be compared: one without a time zone is taken as local time."""
    return moment if moment.tzinfo else moment.astimezone()
