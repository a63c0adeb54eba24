"""What every part of a thread's face stands on: which thread it is, what was seen of it, how a write is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from perdure.app.parts import Parts
from perdure.app.users import UserId
from perdure.checkpoints.requests import Request, Saved
from perdure.core.checkpoint import Checkpoint, CheckpointMark, check_metadata
from perdure.core.document import Document
from perdure.core.errors import (
    SAY_WHOSE,
    AmbiguousThreadError,
    CheckpointDamagedError,
    EntryDamagedError,
    InvalidInputError,
    NotFoundError,
    ValueDamagedError,
)
from perdure.core.identity import ThreadKey, check_id, check_label
from perdure.core.threads import NO_PATCH, ThreadPatch, ThreadRow

ABSENT: Any = object()
Fresh = Literal["storage", "cache"]


class LastRead(msgspec.Struct, frozen=True, kw_only=True):
    """Where the newest answer of a handle came from, and how old it was."""

    source: Fresh  # "cache": Redis alone vouched for it
    age: float  # seconds since the storage said so; 0.0 where it was asked
    version: int  # of the state, or of the thread where messages were read


class Sight(msgspec.Struct, frozen=True):
    """A state that was seen: of which thread, and its version."""

    uid: str | None
    version: int


class Handle:
    """A thread that is named, and the last state of it that was seen."""

    def __init__(
        self,
        parts: Parts,
        key: ThreadKey,
        *,
        any_user: bool = False,
        patch: ThreadPatch = NO_PATCH,
        actor: str | None = None,
        task: str | None = None,
    ) -> None:
        self._parts = parts
        self._key = key
        self._resolved = not any_user
        self._patch = patch
        self._agent = patch.agent
        self._actor = actor
        self._task = task
        self._seen: int | None = None
        self._uid: str | None = None  # of the thread that was seen
        self._last_read: LastRead | None = None
        self._is_found = False  # the storage is ready, and the key is the whole one

    @property
    def id(self) -> str:
        """The id of the thread."""
        return self._key.id

    @property
    def user(self) -> UserId | None:
        """Whose thread it is, once that is known."""
        return self._parts.users.shown(self._key.user)

    @property
    def last_read(self) -> LastRead | None:
        """Where the last `load` of the newest state, or list of `messages`, came from, and how old it was."""
        return self._last_read

    def __repr__(self) -> str:
        return f"Thread({self._key.id!r}" + (f", user={self.user!r})" if self._key.user else ")")

    async def _found(self) -> ThreadKey:
        """The key; where the caller said `ANY_USER`, with the one user who has a thread of this id."""
        if not self._parts.is_ready:
            await self._parts.ready()
        if not self._resolved:
            rows = await self._parts.storage.find(self._key.namespace, self._key.id)
            if len(rows) > 1:
                raise AmbiguousThreadError(self._key.id, [self._parts.users.shown(row.key.user) for row in rows])
            if rows:
                self._key, self._resolved = rows[0].key, True
        self._is_found = self._resolved
        return self._key

    async def _row(self, key: ThreadKey) -> ThreadRow:
        row = await self._parts.storage.thread(key)
        if row is None:
            raise NotFoundError(f"thread {self.id!r}", self._advice("save or append to it first"))
        return row

    async def _row_before_damage(self, key: ThreadKey, ref: object) -> ThreadRow:
        """The row; for a version before the damage of a damaged thread, the row as of its last intact version."""
        from perdure.core import refs  # only the first ref of a program needs it

        try:
            return await self._row(key)
        except EntryDamagedError as exc:
            parsed = refs.parse(ref.id if isinstance(ref, Checkpoint) else ref)
            if exc.intact is None or not isinstance(parsed, refs.AtVersion) or not 1 <= parsed.version <= exc.intact:
                raise
            restored = await self._parts.storage.restore(key, at=exc.intact)
            if restored is None:
                raise
            return restored.row

    async def _at(self, key: ThreadKey, ref: object) -> Document:
        row = await self._row_before_damage(key, ref)
        version = await self._parts.points.version(row, ref)
        document = await self._parts.engine.at(key, version, row.uid)
        if document.root is None:
            raise NotFoundError(f"a state at version {version} of thread {self.id!r}")
        return document

    def _default(self, default: Any, what: str) -> Any:
        if default is ABSENT:
            raise NotFoundError(what, self._advice("give load a default, or save one first"))
        return default

    def _advice(self, text: str) -> str:
        return text if self._key.user else f"{text}; {SAY_WHOSE}"

    def _expected(self, expected: object) -> int | None:
        if expected is None:
            return self._seen
        if type(expected) is not int or expected < 0:
            raise InvalidInputError(f"expected must be a version (an int from 0 on), not {expected!r}")
        return expected

    def _saw(self, saved: Saved, wanted: int | None, *, makes: bool = False) -> None:
        """Advance what the handle has seen, unless its write was placed after changes nobody showed it.

        A thread that was deleted and made again by somebody is another one, whatever its version; who `makes` one, and
        said so, has not seen any before.
        """
        done = saved.appended
        is_other = not makes and self._uid not in (None, done.row.uid)
        if done.again or (wanted is not None and done.before != wanted) or is_other:
            return
        self._seen, self._uid = done.state_version, done.row.uid
        self._patch = NO_PATCH
        self._resolved = True

    def _request(self, mark: CheckpointMark | None, key: str | None, *, makes: bool = False) -> Request:
        checked = None if key is None else check_id(key, "the key")
        uid = None if makes else self._uid
        return Request(mark=mark, key=checked, actor=self._actor, patch=self._patch, uid=uid)

    def _mark(
        self, kind: str, status: str | None, note: str | None, metadata: Mapping[str, object] | None
    ) -> CheckpointMark:
        traced = self._traced(metadata)
        if status is None and note is None and traced is None and type(kind) is str:
            return _plain_mark(kind, self._agent)
        return CheckpointMark(
            id="",
            kind=check_id(kind, "the checkpoint kind"),
            status=check_label(status, "status"),
            note=check_label(note, "note"),
            agent=self._agent,
            metadata=check_metadata(traced),
        )

    def _traced(self, metadata: Mapping[str, object] | None) -> Mapping[str, object] | None:
        """The metadata of a point, with who made it and for which task."""
        if self._actor is None and self._task is None:
            return metadata
        traces = {"actor": self._actor, "task_id": self._task}
        return {**{name: value for name, value in traces.items() if value is not None}, **(metadata or {})}


@lru_cache(maxsize=256)
def _plain_mark(kind: str, agent: str | None) -> CheckpointMark:
    """What most checkpoints say of themselves."""
    return CheckpointMark(id="", kind=check_id(kind, "the checkpoint kind"), agent=agent)


def built(document: Document, thread_id: str) -> Any:
    try:
        return document.value()
    except ValueDamagedError as exc:
        raise CheckpointDamagedError("(the newest)", thread_id) from exc


def checkpoint_of(saved: Saved, user: UserId | None) -> Checkpoint:
    row = saved.appended.checkpoint
    if row is None:
        raise InvalidInputError("the write this key stands for made no checkpoint")
    return row.public(user)


async def key_of(thread: Handle) -> ThreadKey:
    """Which thread it is, exactly; for the faces that are built on it."""
    return await thread._found()  # pyright: ignore[reportPrivateUsage]


def traces_of(thread: Handle) -> tuple[str | None, ThreadPatch]:
    """Who writes through a handle, and what is kept with the first write of its thread."""
    return thread._actor, thread._patch  # pyright: ignore[reportPrivateUsage]


def sight_of(thread: Handle) -> Sight | None:
    """The newest state that was seen through a handle; None when none was."""
    seen = thread._seen  # pyright: ignore[reportPrivateUsage]
    return None if seen is None else Sight(thread._uid, seen)  # pyright: ignore[reportPrivateUsage]


def remember(thread: Handle, sight: Sight | None) -> None:
    """Go on from what was seen through another handle on the same thread."""
    if sight is not None:
        thread._uid, thread._seen = sight.uid, sight.version  # pyright: ignore[reportPrivateUsage]
