"""Threads as a storage knows them, and the questions asked about them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.core.digest import GENESIS
from perdure.core.identity import ThreadKey

IDLE = "idle"
LANGGRAPH = "langgraph"  # the agent of a thread that a graph of LangGraph writes: there is no run to take up


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    """The directory line of a thread: where its log stands, who owns it, what it waits for."""

    key: ThreadKey
    uid: str  # tells a thread from a later one of the same id
    name: str | None = None
    agent: str | None = None
    tags: tuple[str, ...] = ()
    metadata: bytes = b""  # encoded; empty for none
    status: str = IDLE
    head: int = 0
    state_version: int = 0  # the last version that changed the state
    run: int = 0  # the version of the newest `run.started` entry, 0 when there is none
    head_digest: bytes = GENESIS
    last_checkpoint: str | None = None
    epoch: int = 0
    lease_owner: str | None = None
    lease_until: int = 0
    wake_at: int | None = None
    attempts: int = 0
    parent_uid: str | None = None
    parent_version: int = 0
    created: int = 0
    updated: int = 0
    quarantined_at: int | None = None  # since when nothing of it runs or counts; None: it is trusted
    origin: str | None = None  # SHA-256 of the file it was imported from, in hex; None: it was made here
    origin_version: int = 0  # its head in that file

    @property
    def is_quarantined(self) -> bool:
        """Whether it came from somebody else and nobody has trusted it yet."""
        return self.quarantined_at is not None


class ThreadPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of the directory line that ride with a write; None leaves a field as it is."""

    name: str | None = None
    agent: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: bytes | None = None
    status: str | None = None
    wake_at: int | None = None  # 0 clears it
    attempts: int | None = None
    if_status: str | None = None  # the timer is set only while the thread has this status
    trusted: bool = False  # the quarantine ends
    quarantined_at: int | None = None  # … or begins


NO_PATCH = ThreadPatch()


class ThreadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which threads to list, newest first; None is no condition."""

    namespace: str = ""
    user: str | None = None
    agent: str | None = None
    status: str | None = None
    tag: str | None = None
    search: str | None = None  # a text that the name or the id holds, in whatever case
    before: tuple[int, str] | None = None  # (updated, uid) of the last line of the page before
    limit: int = 50


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the threads that are due are looked for, by their status."""

    statuses: tuple[str, ...] = ()  # only these; none named: any
    never: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # of these statuses, those whose timer ran out before `since` are left to a person
    since: int = 0
    cut_off: tuple[str, ...] = ()  # … and of these, those whose owner let its lease run out, whenever that was


ANY_STATUS = Which()


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run a thread until a point in time; the epoch tells owners apart."""

    owner: str
    epoch: int
    until: int


def patched(row: ThreadRow, patch: ThreadPatch) -> ThreadRow:
    """The row with the fields that the patch names."""
    return msgspec.structs.replace(
        row,
        name=row.name if patch.name is None else patch.name,
        agent=row.agent if patch.agent is None else patch.agent,
        tags=row.tags if patch.tags is None else patch.tags,
        metadata=row.metadata if patch.metadata is None else patch.metadata,
        status=row.status if patch.status is None else patch.status,
        wake_at=patch.wake_at or None if sets_timer(row, patch) else row.wake_at,
        attempts=row.attempts if patch.attempts is None else patch.attempts,
        quarantined_at=None if patch.trusted else patch.quarantined_at or row.quarantined_at,
    )


def sets_timer(row: ThreadRow, patch: ThreadPatch) -> bool:
    """Whether a patch sets the timer: one that a decision set meanwhile must not be put off."""
    return patch.wake_at is not None and patch.if_status in (None, row.status)


def listed(row: ThreadRow, query: ThreadQuery) -> bool:
    """Whether a row answers a query; order, cursor and limit are the storage's part."""
    return (
        row.key.namespace == query.namespace
        and (query.user is None or row.key.user == query.user)
        and (query.agent is None or row.agent == query.agent)
        and (query.status is None or row.status == query.status)
        and (query.tag is None or query.tag in row.tags)
        and (not query.search or _holds(row, query.search.casefold()))
        and (query.before is None or (row.updated, row.uid) < query.before)
    )


def _holds(row: ThreadRow, text: str) -> bool:
    return any(text in (name or "").casefold() for name in (row.name, row.key.id))


def is_due(row: ThreadRow, now: int) -> bool:
    """Whether somebody should look: a lease ran out, or a timer did and nobody runs the thread."""
    if row.is_quarantined:
        return False
    if row.lease_owner is not None:
        return row.lease_until <= now
    return row.wake_at is not None and row.wake_at <= now


def is_wanted(row: ThreadRow, which: Which) -> bool:
    """Whether a thread that is due is one of those that are looked for."""
    asked = row.status in which.statuses if which.statuses else row.status not in which.never
    if row.lease_owner is not None:
        return asked and row.status not in which.cut_off
    return asked and not (row.status in which.left and (row.wake_at or 0) < which.since)


def is_among(row: ThreadRow, agents: Sequence[str] | None) -> bool:
    """Whether a thread is one of these agents'; "" stands for threads without an agent, None for any."""
    return agents is None or (row.agent or "") in agents


def resume_graph(thread_id: str) -> str:
    """What the program that has the graph of a thread calls: nothing else can go on with it."""
    return f"saver.resume({thread_id!r})"
