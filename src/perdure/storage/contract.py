"""What every storage keeps: no optional methods, the same answers everywhere.

A storage stores and finds; what becomes of a write is decided by `core.writes` inside the storage's transaction.
Every method is one whole transaction: after an error nothing of it is visible, after a return it is durable.
Errors of drivers and of the system reach the caller as `StorageError` classes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected, Projection, Tallies
from perdure.core.pruning import Record, WholeLog
from perdure.core.seams import Seams
from perdure.core.threads import ANY_STATUS, Lease, ThreadQuery, ThreadRow, Which
from perdure.core.writes import Appended, Restored, Sizes, Snapshot, Write

if TYPE_CHECKING:
    from perdure.core.derived import Derived
    from perdure.core.transfer import ThreadCopy
    from perdure.core.verification import Damage

SCHEMA = 1  # what this release writes
NEVER = 1 << 62  # a size that nothing has
INCARNATION = "incarnation"  # kept: changes when a backup is restored, and caches of before are not believed
BLOB_GRACE = 3600 * 1_000_000  # a large value nobody refers to is swept after an hour

Migrate = Literal["auto", "check"]


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """How a storage is laid out, and which releases may use it."""

    schema: int
    min_reader: int  # the oldest schema number a release must know to read it
    min_writer: int  # … and to write it


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """What deleted threads of a user had left behind."""

    blobs: int = 0  # large values that were removed
    hidden: int = 0  # deleted threads that forks still need
    unreached: tuple[str, ...] = ()  # what could not be reached, in sentences


class Watch(Protocol):
    """Wakes somebody who waits for work of one namespace. What was committed after it was made is never missed."""

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  # in place, nothing else could end it
        """True as soon as there may be something to look at, False when `timeout` seconds passed without it."""
        ...

    async def close(self) -> None:
        """Stop watching; a second call does nothing."""
        ...


class Storage(Protocol):
    """A place for logs."""

    @property
    def reuses_room(self) -> bool:
        """Whether what was dropped makes room for what is written next; if not, snapshots are written more rarely."""
        ...

    @property
    def packs_from(self) -> int:
        """The size of an entry's body from which on packing it saves room."""
        ...

    @property
    def packs_records_from(self) -> int:
        """The same for what runs tell: it stays when states are pruned, and is read when a run is resumed."""
        ...

    async def setup(self, migrate: Migrate = "auto") -> Schema:
        """Make or upgrade the layout under a lock, and return it; safe to call from several processes, kill-safe.

        With "check" nothing is changed. Raises `SchemaOutdatedError`, `SchemaTooNewError` (untouched),
        `NotAStorageError`.
        """
        ...

    def migration(self) -> Sequence[str]:
        """The statements (or steps in words) that `setup` would run on an empty place, for people who run them."""
        ...

    async def append(self, write: Write) -> Appended:
        """Append all entries of `write`, or none; head, checkpoint row, directory line and blobs go with them.

        In this order: a key that stands already answers `again` (another request: `KeyReusedError`); a write id that
        stands after `since` (or after `expected` when that conflicts) answers `again`; then `core.writes.admit`
        decides: `NotFoundError` (deleted; also when `new_uid` is that of a deleted thread which forks still need, and
        when `back_to` or `names` was pruned), `LeaseLostError`, `LeaseHeldError`, `VersionConflictError` (another
        thread, state, head or newest run than the caller knows: of two runs that are started at one moment one stands),
        `QuarantinedError` (an entry that starts a run or decides about one, in a thread that nobody trusts). With
        `pruning`, `core.pruning.check_current` may raise `PlanOutdatedError`; then its records are put, the payloads
        it names become empty, checkpoint rows and derived snapshots inside its ranges go. Headers, keys and write ids
        stay.
        """
        ...

    async def keyed(self, key: ThreadKey, idem_key: str) -> Entry | None:
        """The entry, with its payload, that a key stands on; None when there is no thread or no such key.

        It finds what `append` would answer `again` for: a fork has keys of its own.
        """
        ...

    async def under(self, key: ThreadKey, prefix: str) -> list[Entry]:
        """The entries, with payload, whose key begins with exactly this text, in order of version; [] when none does.

        Unlike `keyed` it follows forks into their parents: what these had up to the fork is a part of its history. One
        that was pruned comes with an empty payload. Keys are found by an index; `prefix` is not empty.
        """
        ...

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        """Read what folding version `at` (None: the head) needs, in one transaction; None when there is no thread.

        That is the newest snapshot or base up to `at`, the entries after it, in order, and the records of ranges among
        them that were pruned. With `after`, only the entries after that version. Follows forks into their parents.
        Entries that do not change the state come without payload, those that were pruned with an empty one.
        """
        ...

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        """Entries with payload in order of version, those of parents of a fork included; [] when there is no thread."""
        ...

    async def log(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        kinds: Sequence[EntryKind] | None = None,
        checkpoints: bool = False,
    ) -> WholeLog | None:
        """The `entries` after a version, their `records`, and all rewinds, in one transaction; None without a thread.

        Whoever asks for them one after the other may get entries from before a prune and records from after it. Where
        there are rewinds, entries are of all kinds: one may go back to any of them. Checkpoints come when asked for.
        """
        ...

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        """Entries without payload, newest first, up to version `at` and up to the time `until`; for finding a point."""
        ...

    async def seams(self, key: ThreadKey) -> Seams:
        """The rewinds of a thread and the versions that were pruned, its parents' up to the fork included."""
        ...

    async def records(self, key: ThreadKey) -> list[Record]:
        """What stands for pruned ranges, bases among them, in order of version; parents' up to the fork included."""
        ...

    async def forks(self, key: ThreadKey) -> list[int]:
        """The versions of this thread that forks need, forks of forks and deleted ones included, in rising order."""
        ...

    async def derived(self, key: ThreadKey) -> Derived | None:
        """What is kept of a thread beside its log, its own part as it stands; for those who compare it with the log.

        Also what readers do not see because the line names an earlier head: entries, and index lines of them.
        """
        ...

    async def reindex(self, seen: ThreadRow, made: Derived) -> bool:
        """Put what was made from the log in the place of what is derived; False when the thread is not where it was.

        That is: its line has another uid, head or head digest than `seen`. Head, state version, newest run, head
        digest, last checkpoint and time of the line change, its checkpoint rows, rewinds and uses of large values are
        those of `made`, snapshots after its head go. The log is not touched. Where all of it is read from the log
        anyway, it is read again.
        """
        ...

    async def strays(self) -> dict[str, int]:
        """What no directory line leads to: how many, by where it lies and what it is. Whose it was, nobody can tell.

        What belongs to a thread that `damaged` names is not among it.
        """
        ...

    async def integrity(self) -> list[str]:
        """What the database's own check finds wrong, in its words; nothing where it has none."""
        ...

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
        """Keep a snapshot of a version of this thread; False when the thread is gone.

        It replaces one of that version, but a derived one never replaces a base.
        """
        ...

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        """Drop a derived snapshot (also a parent's) of exactly this version; a base is never dropped."""
        ...

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        """Checkpoints of a thread and of its parents up to the fork, newest first. Reads no payload.

        With `present`, those are left out that rewinds left behind. One that is asked for by its `id` is found by an
        index, however many there are.
        """
        ...

    async def user_checkpoints(self, namespace: str, user: str | None, query: CheckpointQuery) -> list[CheckpointRow]:
        """Checkpoints of all threads of a user (None: of all users), by id, newest first. Reads no payload.

        One that several threads have, as copies may, is listed once, as that of any of them.
        """
        ...

    async def checkpoint(self, namespace: str, user: str | None, checkpoint_id: str) -> CheckpointRow | None:
        """One checkpoint by its id; None when it is not there or belongs to another user.

        Of several copies any, but none of a quarantined thread where a trusted one has it: who writes a file chooses
        the ids in it.
        """
        ...

    async def projection(self, key: ThreadKey) -> Projection | None:
        """How far the messages of a thread have been read off its log; None when there is no thread."""
        ...

    async def project(self, made: Projected) -> bool:
        """Put lines of messages, take others away, and note how far the log is read; all of it or nothing.

        False when the thread is gone, or read on to elsewhere than `made.seen` says. A line replaces one of its number.
        """
        ...

    async def unprojected(self, owner: Owner, limit: int = 100) -> list[ThreadRow]:
        """Threads whose messages are not all read off their logs, or not in this `SHAPE`, in any order."""
        ...

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        """Lines of messages with their payloads, as far as they were read off: of one thread by number, or of all
        threads of an owner by (time, uid, number). A payload that was emptied is empty.
        """
        ...

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        """What `messages` gives, if all these logs were read to their ends, in this `SHAPE`; None if one was not.

        Every write that was acknowledged before the call counts: whoever finds lines behind reads on and asks again.
        """
        ...

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        """What the messages that answer a query add up to, by role in order of code points, whatever its limit."""
        ...

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        """The directory line of exactly this thread."""
        ...

    async def line(self, uid: str) -> ThreadRow | None:
        """The directory line of the thread with this uid, whoever owns it; None when it is gone."""
        ...

    async def find(self, namespace: str, thread_id: str) -> list[ThreadRow]:
        """The threads of this id, whoever owns them; for callers that mean any user."""
        ...

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]:
        """The directory, by (updated, uid), newest first. Reads no payload."""
        ...

    async def namespaces(self) -> list[str]:
        """The namespaces that have threads, in order."""
        ...

    async def damaged(self) -> list[Damage]:
        """Threads that no list has because they cannot be read or their record was lost, after a look at each record.

        Everything else is answered as if they were not there; who names one of them gets its error.
        """
        ...

    async def mend(self, key: ThreadKey) -> list[str]:
        """Make again what stands beside a log and keeps the thread from being read; return what was made, in words."""
        ...

    async def fork(self, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
        """Make `target` (key, uid, name, agent, tags, created) a thread whose history is `source` up to `version`.

        Constant work, nothing is copied. It is quarantined if `source` is, and has its origin. The very same fork again
        (uid, parent, version) answers as the first time did.
        Raises `NotFoundError` (no such thread or version, or its state was pruned), `ThreadExistsError`.
        """
        ...

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        """Add a copied thread as it stands, or bring the one that stands up to it; return its line, without a lease.

        Versions, times, write ids, keys and chain digests stay as they are, and so does the uid unless another thread
        has it. The past of a fork is shared with its parent where that is here, with the same past and of the same
        user; otherwise it comes along, and nobody sees it but the fork. The very same copy again changes nothing.
        The row of the copy says whether the thread is quarantined and where it came from; its past is marked like it,
        and one that is not quarantined shares no past with a parent that is.
        Raises `EntryDamagedError` and `BlobDamagedError` (the copy fails its digests), `ThreadExistsError` (another
        thread has the key, or neither uid is free), `LeaseHeldError` (one that would grow is being run),
        `NotFoundError` (the thread that the copy is the rest of).
        """
        ...

    async def delete(self, key: ThreadKey) -> bool:
        """Delete a thread with everything that belongs to it; False when there was none.

        What its forks need stays, invisible, until the last of them is deleted.
        """
        ...

    async def claim(self, key: ThreadKey, owner: str, *, until: int, now: int, take_from: str | None = None) -> Lease:
        """Give `owner` the lease with the next epoch.

        Raises `LeaseHeldError`, `NotFoundError`, `QuarantinedError`.
        """
        ...

    async def renew(self, key: ThreadKey, epoch: int, *, until: int, now: int) -> Lease:
        """Make the lease last longer. Raises `LeaseLostError`, `NotFoundError`."""
        ...

    async def release(self, key: ThreadKey, epoch: int, *, wake_at: int | None = None) -> None:
        """Give the lease back, and ask to be woken (a timer that was set meanwhile stays, unless this one is earlier).

        Raises `LeaseLostError`, `NotFoundError`.
        """
        ...

    async def due(
        self, namespace: str, now: int, limit: int = 100, agents: Sequence[str] | None = None, *, ahead: int = 0,
        which: Which = ANY_STATUS,
    ) -> list[ThreadRow]:  # fmt: skip
        """Threads whose lease ran out or whose timer did, oldest first, found by an index; no quarantined ones.

        With `agents`, only those whose agent is one of these; "" stands for threads without an agent. With `ahead`,
        those too that will be due within so many microseconds. `which` tells them apart by their status:
        `left` looks at those whose timer ran out, `cut_off` at those whose lease did.
        """
        ...

    def watch(self, namespace: str) -> Watch:
        """Wait for work of a namespace: a timer that was set, a lease given back, an answer, a signal, a run's end."""
        ...

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """The sealed payloads of large values of this thread's user; absent ones are missing in the answer."""
        ...

    async def sweep_blobs(self, now: int) -> int:
        """Remove large values that nothing has referred to for `BLOB_GRACE`, and return how many."""
        ...

    async def sweep_user(self, namespace: str, user: str) -> Leftovers:
        """Remove what deleted threads of a user left behind, whenever that was; for erasing a user.

        That is: large values that no thread refers to, and deleted threads that no fork needs any more. A value that a
        write under way refers to stays. The answer says how many values went, how many deleted threads forks still
        need, and what could not be reached.
        """
        ...

    async def keep(self, name: str, value: bytes) -> bytes:
        """Keep a small value of the storage itself unless there is one of this name; return the one that stands."""
        ...

    async def kept(self, prefix: str) -> dict[str, bytes]:
        """The small values whose name begins with exactly this text, by name in order."""
        ...

    async def discard(self, name: str) -> bool:
        """Remove a small value; False when there was none of this name."""
        ...

    async def compact(self) -> int:
        """Give disk space that nothing uses back to the system, and return how many bytes that was.

        What is stored does not change. It takes the lock that `compacting` names.
        """
        ...

    def compacting(self) -> str:
        """Who has to wait while `compact` works, in a sentence for people."""
        ...

    async def sizes(self, key: ThreadKey | None = None) -> Sizes:
        """How many bytes a thread, or everything, takes."""
        ...

    async def close(self) -> None:
        """Let go of files and connections; a second call does nothing. Later calls raise `StorageClosedError`."""
        ...
