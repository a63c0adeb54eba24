"""The threads that are kept in Redis: filled after a read, pushed to after a commit, the least used ones evicted."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from perdure.core.digest import GENESIS
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.ports import Clock, Telemetry
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Restored, Snapshot, Write, stamped
from perdure.storage.hot.found import Found, is_chain, is_sound
from perdure.storage.hot.keys import Keys, member_of, users_part
from perdure.storage.hot.pipe import Command
from perdure.storage.hot.ports import RedisPort
from perdure.storage.hot.signing import Signer

LARGEST = 8 << 20  # bytes: what is larger would not come through in time
LONGEST = 2048  # elements of a tail
PACKED = 256  # elements of a tail above which a fill writes it anew, as one
_MOMENT = 1_000_000  # microseconds
_EMPTYING = frozenset({EntryKind.MESSAGE_DELETED, EntryKind.RANGE_PRUNED})
WINDOW = 128  # the newest entries, which are kept for readers of messages when a snapshot takes over the rest


class Lines:
    """The newest directory lines this process saw. They tell what a write follows; nobody is answered with them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._rows: OrderedDict[ThreadKey, ThreadRow] = OrderedDict()

    def get(self, key: ThreadKey) -> ThreadRow | None:
        return self._rows.get(key)

    def put(self, key: ThreadKey, row: ThreadRow | None) -> None:
        with self._lock:
            known = self._rows.pop(key, None)
            if row is not None:
                self._rows[key] = known if known and known.uid == row.uid and known.head > row.head else row
            if len(self._rows) > self._limit:
                self._rows.popitem(last=False)


class Fresh:
    """The threads whose keys were given their time to live, and their place among those that are kept, a moment ago."""

    def __init__(self, limit: int, moment: int) -> None:
        self._limit = limit
        self._moment = moment  # microseconds
        self._since: dict[bytes, tuple[str, int]] = {}

    def has(self, member: bytes, uid: str, now: int) -> bool:
        """Whether that need not be done again."""
        known, since = self._since.get(member, ("", 0))
        return known == uid and 0 <= now - since < self._moment

    def put(self, member: bytes, uid: str, now: int) -> None:
        """It was done."""
        if len(self._since) >= self._limit and member not in self._since:
            self._since.clear()
        self._since[member] = uid, now

    def drop(self, member: bytes) -> None:
        """It has to be done again."""
        self._since.pop(member, None)

    def judge(self, member: bytes, answers: list[Any] | None) -> list[Command]:
        """The answer to a push: where there was nothing to push to, it has to be done again."""
        if not answers or type(answers[0]) is not int or answers[0] < 1:
            self.drop(member)
        return []


class Cache:
    """What Redis holds of one storage."""

    def __init__(
        self,
        port: RedisPort,
        *,
        place: bytes,
        secret: bytes,
        ttl: float,
        max_threads: int,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._port = port
        self._keys = Keys(place)
        self._signer = Signer(secret)
        self._ttl = max(int(ttl * 1000), 1)  # milliseconds
        self._max_threads = max_threads
        self._clock = clock
        self._telemetry = telemetry
        self.lines = Lines(max_threads)
        self._fresh = Fresh(max_threads, min(_MOMENT, self._ttl * 1000 // 10))

    async def look(self, key: ThreadKey, asked: Coroutine[Any, Any, ThreadRow | None]) -> Found | None:
        """Ask the storage for a thread's line, and Redis for all that it has of the thread.

        None when there is no such thread, or Redis is not available.
        """
        member = member_of(key)
        wanted: list[Command] = [("GET", self._keys.base(member)), ("LRANGE", self._keys.tail(member), 0, -1)]
        row, answers = await self._asked(key, asked, wanted)
        return Found(self._signer, row, *answers) if row and answers else None

    async def look_at_newest(
        self, key: ThreadKey, asked: Coroutine[Any, Any, ThreadRow | None], count: int
    ) -> Found | None:
        """The same for the newest elements of its tail only."""
        wanted: list[Command] = [("LRANGE", self._keys.tail(member_of(key)), -count, -1)]
        row, answers = await self._asked(key, asked, wanted)
        return Found(self._signer, row, None, *answers) if row and answers else None

    async def _asked(
        self, key: ThreadKey, asked: Coroutine[Any, Any, ThreadRow | None], wanted: list[Command]
    ) -> tuple[ThreadRow | None, list[Any] | None]:
        member = member_of(key)
        row, answers = await self._port.beside(asked, [*wanted, *self._refreshed(member), self._used(member)])
        self.lines.put(key, row)
        return row, answers and answers[: len(wanted)]

    def _used(self, member: bytes) -> Command:
        """Note that a thread was used. XX: one that is not kept is not counted."""
        return ("ZADD", self._keys.used, "XX", self._clock.now(), member)

    def tell(self, found: Found, hit: bool) -> None:
        """Count what came of a look."""
        self._telemetry.count("perdure.hot.hits" if hit else "perdure.hot.misses")
        if found.refused:
            self._telemetry.count("perdure.hot.refused", found.refused)

    async def fill(self, restored: Restored, found: Found) -> bool:
        """Keep what a storage answered for the head of a thread, and say whether Redis has it now."""
        row = restored.row
        self.lines.put(row.key, row)
        if _weight(restored) > LARGEST or not is_sound(restored):
            await self.forget(row.key)
            return False
        base = self._based(member_of(row.key), row, restored.snapshot)
        kept = await self._kept(row, [base], restored.entries, found)
        return kept and _is_own(row, restored.snapshot)

    def _based(self, member: bytes, row: ThreadRow, snapshot: Snapshot | None) -> Command:
        if not _is_own(row, snapshot):
            return ("DEL", self._keys.base(member))
        value = self._signer.base(member, row.uid, snapshot)
        return ("SET", self._keys.base(member), value, "PX", self._ttl)

    async def add(self, row: ThreadRow, after: int, entries: Sequence[Entry], found: Found) -> None:
        """Keep the entries after a version beside what is there; the first of them only shows what they follow."""
        if not entries:
            return  # it was deleted meanwhile
        start, chain, rest = (0, GENESIS, entries) if after == 0 else (after, entries[0].chain, entries[1:])
        if sum(len(entry.payload or b"") for entry in rest) <= LARGEST and is_chain(row, start, chain, rest):
            await self._kept(row, [], rest, found)

    async def _kept(self, row: ThreadRow, commands: list[Command], entries: Sequence[Entry], found: Found) -> bool:
        known, member = found.known(), member_of(row.key)
        # What a fork has from its parents may be emptied there, and nothing of the fork would tell.
        entries = [entry for entry in entries if entry.version > row.parent_version]
        # What was emptied while Redis was away is whole there still, and no digest tells: all of it goes.
        emptied = any(entry.kind in _EMPTYING and entry.version not in known for entry in entries)
        known = {} if emptied else known
        # Only what is missing is pushed: writing the tail anew would lose what others push at the same time.
        anew = emptied or found.refused > 0 or found.count > PACKED
        missing = [_fuller(entry, known) for entry in entries if anew or not _has(known, entry)]
        if anew:
            commands.append(("DEL", self._keys.tail(member)))
        if not entries and row.parent_uid is not None and all(command[0] == "DEL" for command in commands):
            await self._port.run(commands)  # nothing of its own yet: it takes no place among those that are kept
            return False
        return await self._push(member, row.uid, commands, missing)

    async def push(self, write: Write, done: Appended) -> None:
        """Keep the entries of a write that was committed, when it is known what they follow."""
        before = self._before(write, done)
        self.lines.put(write.key, done.row)
        entries = _entries_of(before, write, done) if before else []
        if not entries:
            return  # somebody wrote in between: the next reader fills the gap
        member, uid = member_of(write.key), done.row.uid
        if self._fresh.has(member, uid, self._clock.now()):
            await self._push_more(member, uid, entries)
            return
        begins = done.row.parent_uid is None and entries[0].version == 1
        commands = [self._based(member, done.row, None)] if begins else []
        if self._stock(member, uid, commands, entries):
            self._fresh.put(member, uid, self._clock.now())
            await self._port.send(_together(commands), self._evicted)

    async def _push_more(self, member: bytes, uid: str, entries: list[Entry]) -> None:
        """Push to a tail whose time was set a moment ago. One that is gone by now is not made anew: it would stay."""
        value = self._signer.entries(member, uid, entries)
        if len(value) <= LARGEST:
            more: Command = ("RPUSHX", self._keys.tail(member), value)
            await self._port.send([more, self._used(member)], lambda answers: self._fresh.judge(member, answers))

    def _before(self, write: Write, done: Appended) -> ThreadRow | None:
        """The line that a write was built on."""
        made = len(write.entries)
        if done.version == made and done.row.parent_uid is None:
            return ThreadRow(key=write.key, uid=done.row.uid)
        known = self.lines.get(write.key)
        return known if known and (known.uid, known.head + made) == (done.row.uid, done.version) else None

    async def _push(self, member: bytes, uid: str, commands: list[Command], entries: Sequence[Entry]) -> bool:
        if not self._stock(member, uid, commands, entries):
            return False
        answers = await self._port.run(_together(commands))
        if answers is None:
            return False
        after = self._evicted(answers)
        if after:
            await self._port.run(after)
        return True

    def _stock(self, member: bytes, uid: str, commands: list[Command], entries: Sequence[Entry]) -> bool:
        """Add what keeps these entries, and their thread among those in use; False when they are too much."""
        tail, used = self._keys.tail(member), self._keys.used
        if entries:
            value = self._signer.entries(member, uid, list(entries))
            if len(value) > LARGEST:
                return False
            commands += [("RPUSH", tail, value), ("LTRIM", tail, -LONGEST, -1)]
        commands += [*self._refreshed(member), ("ZADD", used, self._clock.now(), member)]
        commands += [("PEXPIRE", used, self._ttl), ("ZRANGE", used, 0, -self._max_threads - 1)]
        return True

    def _refreshed(self, member: bytes) -> list[Command]:
        return [("PEXPIRE", key, self._ttl) for key in (self._keys.base(member), self._keys.tail(member))]

    def _evicted(self, answers: list[Any] | None) -> list[Command]:
        """What drops the threads beyond the limit, those that were not used for longest."""
        beyond = _listed(answers[-1])[-1:] if answers else None
        if beyond is None:
            return []
        if not beyond or not isinstance(beyond[0], list):
            return [("DEL", self._keys.used)]
        members = _members(beyond[0])
        return [("DEL", *self._names(members)), ("ZREM", self._keys.used, *members)] if members else []

    def _names(self, members: Sequence[bytes]) -> list[bytes]:
        return [name(member) for member in members for name in (self._keys.base, self._keys.tail)]

    async def put_snapshot(self, key: ThreadKey, uid: str, snapshot: Snapshot) -> None:
        """Keep a snapshot that was stored, if it is of the newest version that is known; else the next reader fills."""
        row, member = self.lines.get(key), member_of(key)
        restored = row and Restored(row=row, snapshot=snapshot, entries=[])
        if row is None or row.uid != uid or restored is None or not is_sound(restored):
            await self._port.run([("DEL", self._keys.base(member))])
        else:
            trimmed: Command = ("LTRIM", self._keys.tail(member), -WINDOW, -1)
            await self._push(member, uid, [self._based(member, row, snapshot), trimmed], [])

    async def drop_snapshot(self, row: ThreadRow | None, version: int) -> None:
        """Forget a snapshot that was dropped; one of a parent may be the newest of any thread of its user."""
        if row is None:
            return
        members = [member_of(row.key)]
        if row.parent_uid is not None and version <= row.parent_version:
            answers = await self._port.run([("ZRANGE", self._keys.used, 0, -1)])
            kept = _members(_listed(answers[0] if answers else None))
            members += [each for each in kept if each.startswith(users_part(row.key))]
        await self._port.run([("DEL", *(self._keys.base(member) for member in members))])

    async def forget(self, key: ThreadKey) -> None:
        """Drop everything of a thread."""
        self.lines.put(key, None)
        member = member_of(key)
        self._fresh.drop(member)
        await self._port.run([("DEL", *self._names([member])), ("ZREM", self._keys.used, member)])


def _together(commands: list[Command]) -> list[Command]:
    """All or nothing: a connection that breaks half-way must not leave a key that never expires."""
    return [("MULTI",), *commands, ("EXEC",)]


def _is_own(row: ThreadRow, snapshot: Snapshot | None) -> bool:
    """Whether a snapshot is this thread's newest whatever happens to the thread it was forked from."""
    return row.parent_uid is None or (snapshot is not None and snapshot.version > row.parent_version)


def _entries_of(before: ThreadRow, write: Write, done: Appended) -> list[Entry]:
    """The entries as the storage stamped them; none when they do not lead to the head it named."""
    micros = done.row.updated  # a server's time is not the caller's
    after, entries = stamped(replace(before, updated=micros), replace(write, micros=micros))
    return entries if after.head_digest == done.row.head_digest else []


def _listed(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else []


def _members(answer: list[Any]) -> list[bytes]:
    return [each for each in answer if type(each) is bytes]


def _has(known: dict[int, Entry], entry: Entry) -> bool:
    have = known.get(entry.version)
    return have is not None and have.chain == entry.chain and (have.payload is not None or entry.payload is None)


def _fuller(entry: Entry, known: dict[int, Entry]) -> Entry:
    """The entry, with the payload that a restore leaves out where Redis had it."""
    have = known.get(entry.version)
    return have if have is not None and have.chain == entry.chain and have.payload is not None else entry


def _weight(restored: Restored) -> int:
    snapshot = len(restored.snapshot.payload) if restored.snapshot else 0
    return snapshot + sum(len(entry.payload or b"") for entry in restored.entries)
