"""The threads that are kept in Redis: filled after a read, pushed to after a commit, the least used ones evicted."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.core.digest import GENESIS
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Restored, Snapshot, Write, stamped
from perdure.storage.hot.found import Found, Marks, is_chain, is_sound
from perdure.storage.hot.keys import Keys, member_of, users_part
from perdure.storage.hot.pipe import Command
from perdure.storage.hot.ports import RedisPort, together
from perdure.storage.hot.remembered import Fresh, Lines
from perdure.storage.hot.signing import HeadMark, Signer
from perdure.storage.hot.tombstones import PENDING, Tombstones
from perdure.storage.hot.usage import Usage

LARGEST = 8 << 20  # bytes: what is larger would not come through in time
LONGEST = 2048  # elements of a tail
PACKED = 256  # elements of a tail above which a fill writes it anew, as one
_MOMENT = 1_000_000  # microseconds
MARKS = 8  # head marks of a thread: pushes of several processes may arrive in any order
_RENEWED = 1_000_000  # microseconds after which a checked read makes a head mark anew
_EMPTYING = frozenset({EntryKind.MESSAGE_DELETED, EntryKind.RANGE_PRUNED})
WINDOW = 128  # the newest entries, which are kept for readers of messages when a snapshot takes over the rest


AskRow = Callable[[ThreadKey], Coroutine[Any, Any, ThreadRow | None]]


class RedisAway(Exception):
    """Redis does not answer, or lacks a tombstone: the storage has to be asked."""


class Cached(Struct, frozen=True, kw_only=True):
    """What Redis alone says of a thread: checked, and as old as it says."""

    row: ThreadRow
    age: float  # seconds since the storage said so
    found: Found | None  # its content; None where it was not asked for


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
        randomness: Randomness,
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
        self._usage = Usage(max_threads, self._ttl * 1000)
        self._tombstones = Tombstones(
            port, self._keys, self._signer, ttl=self._ttl, clock=clock, randomness=randomness, telemetry=telemetry
        )

    def now(self) -> int:
        """The time by which ages are measured."""
        return self._clock.now()

    # Reading beside the storage.

    async def look(self, key: ThreadKey, ask: AskRow) -> Found | None:
        """Ask the storage for a thread's row, and Redis for all that it has of the thread.

        None when there is no such thread, or Redis is not available.
        """
        member = member_of(key)
        wanted: list[Command] = [("GET", self._keys.base(member)), ("LRANGE", self._keys.tail(member), 0, -1)]
        return await self._looked(key, ask, wanted)

    async def look_at_newest(self, key: ThreadKey, ask: AskRow, count: int) -> Found | None:
        """The same for the newest elements of its tail only."""
        return await self._looked(key, ask, [("LRANGE", self._keys.tail(member_of(key)), -count, -1)])

    async def _looked(self, key: ThreadKey, ask: AskRow, wanted: list[Command]) -> Found | None:
        member, asked_at = member_of(key), self.now()
        known_under = self._tombstones.under(member)
        every = [*self._standing(member), *wanted, *self._refreshed(member), self._used(member)]
        row, answers = await self._port.beside(ask(key), every)
        self.lines.put(key, row)
        if row is None or not answers:
            return None
        base, elements = answers[2] if len(wanted) > 1 else None, answers[1 + len(wanted)]
        found = Found(self._signer, row, base, elements, asked_at=asked_at)
        found.marks = self._marks(member, answers[1])
        found.under = await self._under(key, found, answers[0], known_under, ask)
        return found

    async def _under(self, key: ThreadKey, found: Found, gone: object, known_under: bytes, ask: AskRow) -> bytes | None:
        """The tombstone that a head mark of the row may be made under; None when none may be made."""
        member = member_of(key)
        is_standing, tombstone = self._tombstones.read(member, gone)
        if not is_standing:
            # Lost, spoiled, or put back to a time before a deletion: marks of that time must not count again.
            tombstone = await self._tombstones.write(member, pending=False)
            if tombstone is None:
                return None
        elif tombstone is not None and tombstone.pending:
            if tombstone.at > found.asked_at - PENDING:
                return None  # whoever deletes is at work: the row may be gone in a moment
            # … or died before it could say what became of it.
            tombstone = await self._tombstones.write(member, pending=False)
            if tombstone is None:
                return None
        under = tombstone.nonce if tombstone else b""
        if under != known_under:
            # The row may have been read before the tombstone was written: one that is read now was not.
            found.asked_at = self.now()
            row = await ask(key)
            if row is None or (row.uid, row.head) != (found.row.uid, found.row.head):
                return None
        return under

    def _standing(self, member: bytes) -> list[Command]:
        return [("GET", self._keys.gone(member)), ("LRANGE", self._keys.head(member), 0, -1)]

    def _marks(self, member: bytes, values: object) -> Marks:
        marks = Marks(self._signer, member, values)
        if marks.refused:
            self._telemetry.count("perdure.hot.refused", marks.refused)
        return marks

    async def confirm(self, found: Found) -> None:
        """Make the head mark anew after the storage was asked, where that is worth a command."""
        row, under = found.row, found.under
        if under is None or found.marks is None:
            return
        mark = found.marks.newest
        is_same = mark is not None and (mark.uid, mark.head, mark.under) == (row.uid, row.head, under)
        if mark is None or not is_same or found.asked_at - mark.at >= _RENEWED:
            await self._port.send(together(self._marked(row, found)), _nothing)

    def _marked(self, row: ThreadRow, found: Found) -> list[Command]:
        """Commands that tell where the log of a thread stands, and take away what tells of another life of it."""
        if found.under is None or found.marks is None:
            return []
        member = member_of(row.key)
        name = self._keys.head(member)
        value = self._signer.head(member, _mark_of(row, found.asked_at, found.under))
        # One by one: another process may push a newer one meanwhile.
        wrong: list[Command] = [("LREM", name, 0, each) for each in found.marks.of_others(row.uid, found.under)]
        wrong = wrong if found.marks.is_list else [("DEL", name)]
        return [*wrong, ("RPUSH", name, value), ("LTRIM", name, -MARKS, -1), ("PEXPIRE", name, self._ttl)]

    # Reading alone.

    async def read_alone(self, key: ThreadKey, max_age: float, wanted: Sequence[Command] = ()) -> Cached | None:
        """What Redis says of a thread without the storage; None when it says nothing that may be believed.

        Raises `RedisAway` when Redis does not answer, or has not taken a tombstone of this process yet.
        """
        if not await self._tombstones.pay():
            raise RedisAway
        member, now = member_of(key), self.now()
        told = self._telling(now) if self._usage.note(member, now) else []
        answers = await self._port.run([*self._standing(member), *wanted, *told])
        if answers is None:
            raise RedisAway
        self._judge_usage(told, answers[2 + len(wanted) :])
        mark = self._believed_mark(key, answers[0], answers[1], max_age, now)
        if mark is None:
            return None
        row, age = mark.row(key), max(now - mark.at, 0) / 1e6
        base, elements = (answers[2] if len(wanted) > 1 else None), answers[1 + len(wanted)] if wanted else []
        return Cached(row=row, age=age, found=Found(self._signer, row, base, elements) if wanted else None)

    def whole_content(self, key: ThreadKey) -> list[Command]:
        """The commands for all that Redis has of a thread."""
        member = member_of(key)
        return [("GET", self._keys.base(member)), ("LRANGE", self._keys.tail(member), 0, -1)]

    def newest_content(self, key: ThreadKey, count: int) -> list[Command]:
        """The command for the newest elements of its tail."""
        return [("LRANGE", self._keys.tail(member_of(key)), -count, -1)]

    def _believed_mark(self, key: ThreadKey, gone: object, marks: object, max_age: float, now: int) -> HeadMark | None:
        member, line = member_of(key), self.lines.get(key)
        is_standing, tombstone = self._tombstones.read(member, gone)
        mark = self._marks(member, marks).newest
        if not is_standing or mark is None or (tombstone is not None and tombstone.pending):
            return None
        # One under another tombstone may be from before a deletion, or of a writer that has not heard of it.
        if mark.under != (tombstone.nonce if tombstone else b""):
            return None
        if line is not None and (line.uid != mark.uid or line.head > mark.head):
            return None  # this process knows better: nobody reads less than what they wrote
        oldest = min(max_age * 1e6, self._ttl * 1000)  # what is older may be from before a tombstone that expired
        return mark if -PENDING <= now - mark.at <= oldest else None

    # Deleting.

    async def bury(self, key: ThreadKey) -> None:
        """Write a pending tombstone, before the storage deletes something of a thread or leaves it behind."""
        member = member_of(key)
        self._fresh.drop(member)
        await self._tombstones.write(member, pending=True)

    async def settle(self, key: ThreadKey, *, drop: bool) -> None:
        """Write the final tombstone, after the storage answered; with `drop`, all of the thread goes."""
        member = member_of(key)
        commands: list[Command] = []
        if drop:
            self._forget(key)
            commands = [("DEL", *self._keys.content(member)), ("ZREM", self._keys.used, member)]
        await self._tombstones.write(member, pending=False, also=commands)

    async def pay_at_last(self) -> None:
        """Try once more before the process forgets which tombstones Redis lacks."""
        await self._tombstones.pay()

    # Use.

    def _used(self, member: bytes) -> Command:
        """Note that a thread was used. XX: one that is not kept is not counted."""
        return ("ZADD", self._keys.used, "XX", self._clock.now(), member)

    async def used(self, key: ThreadKey) -> None:
        """A thread was read without Redis: it stays hot all the same. Told in batches, and never waited for long."""
        now = self.now()
        if self._usage.note(member_of(key), now):
            told = self._telling(now)
            await self._port.send(told, lambda answers: self._judge_usage(told, answers))

    def should_fill(self, key: ThreadKey) -> bool:
        """Whether Redis lost a thread that is in use, and it is time to bring it back."""
        return self._usage.may_fill(member_of(key), self.now())

    def _telling(self, now: int) -> list[Command]:
        """Commands for the uses that were noted and not told."""
        members, scores = self._usage.take(now)
        renewed = [command for member in members for command in self._refreshed(member)]
        return [*renewed, *self._scored(scores), ("PEXPIRE", self._keys.used, self._ttl)] if members else []

    def _scored(self, scores: dict[bytes, int]) -> list[Command]:
        parts = [part for member, at in scores.items() for part in (at, member)]
        return [("ZADD", self._keys.used, "XX", *parts)] if parts else []

    def _judge_usage(self, told: list[Command], answers: list[Any] | None) -> list[Command]:
        """Which threads in use Redis does not have: neither base nor tail was there to live longer."""
        prefix = self._keys.base(b"")
        for at, command in enumerate(told if answers else []):
            name = command[1]
            if command[0] != "PEXPIRE" or not isinstance(name, bytes) or not name.startswith(prefix):
                continue
            if answers and answers[at : at + 2] == [0, 0]:  # the next one is its tail
                self._usage.missed(name.removeprefix(prefix))
        return []

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
        self._usage.filled(member_of(row.key))
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
        return await self._push(member, row.uid, [*commands, *self._marked(row, found)], missing)

    async def push(self, write: Write, done: Appended, asked_at: int) -> None:
        """Keep the entries of a write that was committed, when it is known what they follow."""
        before = self._before(write, done)
        self.lines.put(write.key, done.row)
        entries = _entries_of(before, write, done) if before else []
        if not entries:
            return  # somebody wrote in between: the next reader fills the gap
        member, uid = member_of(write.key), done.row.uid
        await self._tombstones.pay()
        under = self._tombstones.under(member)
        mark = self._signer.head(member, _mark_of(done.row, asked_at, under))
        if self._fresh.has(member, uid, self._clock.now()):
            await self._push_more(member, uid, entries, mark)
            return
        begins = done.row.parent_uid is None and entries[0].version == 1
        commands = [self._based(member, done.row, None)] if begins else []
        commands += [("RPUSH", self._keys.head(member), mark), ("LTRIM", self._keys.head(member), -MARKS, -1)]
        if self._stock(member, uid, commands, entries):
            self._fresh.put(member, uid, self._clock.now())
            gone: Command = ("GET", self._keys.gone(member))
            await self._port.send([gone, *together(commands)], lambda answers: self._pushed(member, answers))

    async def _push_more(self, member: bytes, uid: str, entries: list[Entry], mark: bytes) -> None:
        """Push to a tail whose time was set a moment ago. One that is gone by now is not made anew: it would stay."""
        value = self._signer.entries(member, uid, entries)
        if len(value) <= LARGEST:
            tail, head = self._keys.tail(member), self._keys.head(member)
            more: list[Command] = [("RPUSHX", tail, value), ("RPUSHX", head, mark), ("LTRIM", head, -MARKS, -1)]
            gone: Command = ("GET", self._keys.gone(member))
            await self._port.send(
                [gone, *more, self._used(member)],
                lambda answers: self._pushed_more(member, answers),
            )

    def _pushed(self, member: bytes, answers: list[Any] | None) -> list[Command]:
        self._learn(member, answers)
        return self._evicted(answers)

    def _pushed_more(self, member: bytes, answers: list[Any] | None) -> list[Command]:
        self._learn(member, answers)
        return self._fresh.judge(member, answers and answers[1:])

    def _learn(self, member: bytes, answers: list[Any] | None) -> None:
        """Learn of a tombstone that another process wrote: the marks of later writes are made under it."""
        if answers:
            self._tombstones.read(member, answers[0])

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
        answers = await self._port.run(together(commands))
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
        commands += [
            *self._refreshed(member),
            *self._scored(self._usage.take_scores()),
            ("ZADD", used, self._clock.now(), member),
        ]
        commands += [("PEXPIRE", used, self._ttl), ("ZRANGE", used, 0, -self._max_threads - 1)]
        return True

    def _refreshed(self, member: bytes) -> list[Command]:
        every = (*self._keys.content(member), self._keys.gone(member))
        return [("PEXPIRE", key, self._ttl) for key in every]

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
        return [name for member in members for name in self._keys.content(member)]

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
        """Drop everything of a thread that cannot be kept."""
        self._forget(key)
        member = member_of(key)
        await self._port.run([("DEL", *self._keys.content(member)), ("ZREM", self._keys.used, member)])

    def _forget(self, key: ThreadKey) -> None:
        self.lines.put(key, None)
        self._fresh.drop(member_of(key))

    async def forget_user(self, namespace: str, user: str) -> bool:
        """Drop the threads of a user that are kept, also those that were deleted while Redis was away."""
        mine = users_part(ThreadKey(namespace, user, ""))
        answers = await self._port.run([("ZRANGE", self._keys.used, 0, -1)])
        if answers is None:
            return False
        gone = [member for member in _members(_listed(answers[0])) if member.startswith(mine)]
        dropped: list[Command] = [("DEL", *self._names(gone)), ("ZREM", self._keys.used, *gone)]
        return not gone or await self._port.run(dropped) is not None


def _nothing(answers: list[Any] | None) -> list[Command]:
    return []


def _mark_of(row: ThreadRow, at: int, under: bytes) -> HeadMark:
    return HeadMark(
        uid=row.uid, head=row.head, state_version=row.state_version, head_digest=row.head_digest,
        last_checkpoint=row.last_checkpoint, parent_uid=row.parent_uid, parent_version=row.parent_version, at=at,
        under=under,
    )  # fmt: skip


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
