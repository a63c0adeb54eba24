"""A thread as its users hold it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from perdure.app.parts import Parts
from perdure.app.users import UserId
from perdure.checkpoints.reading import read_log
from perdure.checkpoints.requests import Request, Saved
from perdure.core import diff, steps
from perdure.core.changes import Change
from perdure.core.checkpoint import Checkpoint, CheckpointMark, CheckpointQuery, check_limit, check_metadata
from perdure.core.codec import CannotDecode, decode
from perdure.core.diff import Comparison
from perdure.core.document import Document
from perdure.core.entries import Entry
from perdure.core.errors import (
    AmbiguousThreadError,
    CheckpointDamagedError,
    InvalidFilterError,
    InvalidInputError,
    NotFoundError,
)
from perdure.core.identity import ThreadKey, check_id, check_label
from perdure.core.steps import Step
from perdure.core.threads import NO_PATCH, ThreadPatch, ThreadRow
from perdure.core.times import to_datetime, to_micros
from perdure.core.writes import Sizes

_ABSENT: Any = object()
PathLike = str | tuple[Step, ...]


class ThreadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a thread without reading its state."""

    id: str
    user: UserId | None
    name: str | None
    agent: str | None
    tags: tuple[str, ...]
    status: str
    version: int
    state_version: int
    created: datetime
    updated: datetime
    forked_from: int | None  # the version of its parent it began at
    sizes: Sizes


class Thread:
    """One conversation or task: an append-only log and the state it adds up to.

    A handle remembers the last state it has seen. `save` and `update` are refused with `VersionConflictError` when
    somebody changed the state since then; `append` is right after any change and is placed after it.
    """

    def __init__(self, parts: Parts, key: ThreadKey, *, named_user: bool, patch: ThreadPatch = NO_PATCH) -> None:
        self._parts = parts
        self._key = key
        self._resolved = named_user
        self._patch = patch
        self._agent = patch.agent
        self._seen: int | None = None
        self._uid: str | None = None  # of the thread that was seen

    @property
    def id(self) -> str:
        """The id of the thread."""
        return self._key.id

    @property
    def user(self) -> UserId | None:
        """Whose thread it is, once that is known."""
        return self._parts.users.shown(self._key.user)

    def __repr__(self) -> str:
        return f"Thread({self._key.id!r}" + (f", user={self.user!r})" if self._key.user else ")")

    async def load(self, ref: object = None, default: Any = _ABSENT) -> Any:
        """Return the newest state, or that at `ref`; raise `NotFoundError` when absent, unless a default is given."""
        key = await self._found()
        if ref is None:
            head = await self._parts.engine.head(key)
            if head.version == 0 or head.document.root is None:
                return self._default(default, f"a state of thread {self.id!r}")
            self._seen, self._uid = head.version, head.uid
            return _built(head.document, self.id)
        try:
            return _built(await self._at(key, ref), self.id)
        except NotFoundError:
            if default is _ABSENT:
                raise
            return default

    async def save(
        self,
        state: object,
        *,
        kind: str = "manual",
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
        expected: int | None = None,
        key: str | None = None,
    ) -> Checkpoint:
        """Make `state` the state of the thread, with a checkpoint. What is stored is the change."""
        thread = await self._found()
        request = self._request(self._mark(kind, status, note, metadata), key)
        wanted = self._expected(expected)
        saved = await self._parts.engine.save(thread, state, wanted, request)
        self._saw(saved, wanted)
        return _checkpoint(saved, self.user)

    async def append(self, path: PathLike, *items: object, key: str | None = None, checkpoint: bool = False) -> int:
        """Add items to the list at `path`, made when missing, and return the new version. Right after any change."""
        return await self._change(Change({}, {steps.parse(path): items}, ()), None, key, checkpoint)

    async def update(
        self,
        *,
        set: Mapping[Any, object] | None = None,
        append: Mapping[Any, Sequence[object]] | None = None,
        delete: Iterable[PathLike] = (),
        expected: int | None = None,
        key: str | None = None,
        checkpoint: bool = False,
    ) -> int:
        """Set, append and delete in one atomic write, and return the new version."""
        change = Change(set or {}, append or {}, delete)
        return await self._change(change, expected, key, checkpoint)

    async def _change(self, change: Change, expected: int | None, key: str | None, checkpoint: bool) -> int:
        thread = await self._found()
        mark = self._mark("manual", None, None, None) if checkpoint else None
        wanted = self._expected(expected)
        saved = await self._parts.engine.change(thread, change, wanted, self._request(mark, key))
        self._saw(saved, wanted)
        return saved.appended.version

    async def history(
        self,
        limit: int = 50,
        before: Checkpoint | str | None = None,
        kind: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, object] | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Checkpoint]:
        """List checkpoints, newest first, never their states. `before` is the last one of the page before."""
        check_metadata(metadata)
        query = CheckpointQuery(
            kind=check_label(kind, "kind"),
            status=check_label(status, "status"),
            agent=check_label(agent, "agent"),
            metadata=metadata,
            since=_moment(since, "since"),
            until=_moment(until, "until"),
            before=check_label(before.id if isinstance(before, Checkpoint) else before, "before"),
            limit=check_limit(limit),
        )
        rows = await self._parts.storage.checkpoints(await self._found(), query)
        return [row.public(self.user) for row in rows]

    async def entries(self, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries of the log after a version, oldest first, every digest checked."""
        if type(after) is not int or after < 0:
            raise InvalidInputError(f"after must be a version (an int from 0 on), not {after!r}")
        wanted = None if limit is None else check_limit(limit)
        return await read_log(self._parts.storage, await self._found(), after, wanted)

    async def messages(self, limit: int | None = None) -> list[Any]:
        """Return what was said in this thread, oldest first; with `limit`, the newest that many."""
        return await self._parts.messages.list(await self._found(), None if limit is None else check_limit(limit))

    async def compare(self, a: object, b: object) -> Comparison:
        """Compare the states at two refs of this thread."""
        key = await self._found()
        old, new = await self._at(key, a), await self._at(key, b)
        return diff.compare(old.encoded(), new.encoded())

    async def fork(self, ref: object = None, *, to: str) -> Thread:
        """Make a thread `to` whose history is this one's up to `ref` (default: now). Nothing is copied."""
        key = await self._found()
        row = await self._row(key)
        version = row.head if ref is None else await self._parts.points.version(row, ref)
        target = ThreadKey(key.namespace, key.user, check_id(to, "the thread id"))
        line = ThreadRow(
            key=target, uid=self._parts.engine.ids.sortable(), name=row.name, agent=row.agent, tags=row.tags,
            created=self._parts.engine.clock.now(),
        )  # fmt: skip
        await self._parts.storage.fork(key, version, line)
        self._parts.engine.forget(target)
        return Thread(self._parts, target, named_user=True)

    async def delete(self) -> bool:
        """Delete the thread with everything that belongs to it; its forks keep their history."""
        key = await self._found()
        self._parts.engine.forget(key)
        self._seen = self._uid = None
        return await self._parts.storage.delete(key)

    async def info(self) -> ThreadInfo:
        """Return status, versions and sizes."""
        row = await self._row(await self._found())
        return ThreadInfo(
            id=row.key.id,
            user=self._parts.users.shown(row.key.user),
            name=row.name,
            agent=row.agent,
            tags=row.tags,
            status=row.status,
            version=row.head,
            state_version=row.state_version,
            created=to_datetime(row.created),
            updated=to_datetime(row.updated),
            forked_from=row.parent_version if row.parent_uid else None,
            sizes=await self._parts.storage.sizes(row.key),
        )

    async def _found(self) -> ThreadKey:
        """The key, with the user filled in where the caller named none and exactly one has this id."""
        await self._parts.ready()
        if not self._resolved:
            rows = await self._parts.storage.find(self._key.namespace, self._key.id)
            if len(rows) > 1:
                raise AmbiguousThreadError(self._key.id)
            if rows:
                self._key, self._resolved = rows[0].key, True
        return self._key

    async def _row(self, key: ThreadKey) -> ThreadRow:
        row = await self._parts.storage.thread(key)
        if row is None:
            raise NotFoundError(f"thread {self.id!r}", "save or append to it first")
        return row

    async def _at(self, key: ThreadKey, ref: object) -> Document:
        row = await self._row(key)
        version = await self._parts.points.version(row, ref)
        document = await self._parts.engine.at(key, version)
        if document.root is None:
            raise NotFoundError(f"a state at version {version} of thread {self.id!r}")
        return document

    def _default(self, default: Any, what: str) -> Any:
        if default is _ABSENT:
            raise NotFoundError(what, "give load a default, or save one first")
        return default

    def _expected(self, expected: object) -> int | None:
        if expected is None:
            return self._seen
        if type(expected) is not int or expected < 0:
            raise InvalidInputError(f"expected must be a version (an int from 0 on), not {expected!r}")
        return expected

    def _saw(self, saved: Saved, wanted: int | None) -> None:
        """Advance what the handle has seen, unless its write was placed after changes nobody showed it."""
        done = saved.appended
        if done.again or (wanted is not None and done.before != wanted):
            return
        self._seen, self._uid = done.state_version, done.row.uid
        self._patch = NO_PATCH
        self._resolved = True

    def _request(self, mark: CheckpointMark | None, key: str | None) -> Request:
        checked = None if key is None else check_id(key, "the key")
        return Request(mark=mark, key=checked, patch=self._patch, uid=self._uid)

    def _mark(
        self, kind: str, status: str | None, note: str | None, metadata: Mapping[str, object] | None
    ) -> CheckpointMark:
        return CheckpointMark(
            id="",
            kind=check_id(kind, "the checkpoint kind"),
            status=check_label(status, "status"),
            note=check_label(note, "note"),
            agent=self._agent,
            metadata=check_metadata(metadata),
        )


def _built(document: Document, thread_id: str) -> Any:
    encoded = document.close()
    try:
        return decode(encoded)
    except CannotDecode as exc:
        raise CheckpointDamagedError("(the newest)", thread_id) from exc


def _moment(at: object, what: str) -> int | None:
    if at is None or isinstance(at, datetime):
        return None if at is None else to_micros(at)
    raise InvalidFilterError(f"{what} must be a datetime, not {at!r}")


def _checkpoint(saved: Saved, user: UserId | None) -> Checkpoint:
    row = saved.appended.checkpoint
    if row is None:
        raise InvalidInputError("the write this key stands for made no checkpoint")
    return row.public(user)
