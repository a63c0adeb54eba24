"""A whole log in one look: what fits together comes together, whatever others do meanwhile."""

from __future__ import annotations

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.entries import EntryKind
from perdure.core.fold import walk
from perdure.core.pruning import WholeLog, is_blank
from perdure.storage.contract import Storage
from perdure.testing.contract.prunes import prune
from perdure.testing.contract.rewinding import Diary
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe

ROUNDS = 8


class WholeLogContract(Contract):
    """Entries, records and rewinds at one moment."""

    async def test_a_whole_log_is_what_its_parts_are(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        child = await _pruned_fork(scribe)
        storage = await place.reopen(storage)
        for after in range(child.head + 1):
            log = await storage.log(OTHER, after=after)
            assert log is not None
            assert (log.row, log.seams.rewinds) == (
                await storage.thread(OTHER),
                (await storage.seams(OTHER)).rewinds,
            )
            assert log.entries == await storage.entries(OTHER, after=after)
            assert log.records == [each for each in await storage.records(OTHER) if each.version > after]
        whole = await storage.log(OTHER)
        assert whole is not None
        assert whole.seams == await storage.seams(OTHER)

    async def test_a_whole_log_may_be_of_some_kinds_only(self, storage: Storage, scribe: Scribe) -> None:
        kinds: tuple[EntryKind, ...] = (STATE,)
        await scribe.append(THREAD, STATE, MESSAGE, STATE, MESSAGE, STATE)
        log = await storage.log(THREAD, after=2, kinds=kinds)
        assert log is not None
        assert [entry.version for entry in log.entries] == [3, 5]
        assert log.entries == await storage.entries(THREAD, after=2, kinds=kinds)

    async def test_a_whole_log_with_rewinds_is_of_all_kinds(self, storage: Storage, scribe: Scribe) -> None:
        await _pruned_fork(scribe)
        log = await storage.log(OTHER, kinds=(STATE,))
        assert log is not None
        assert log.entries == await storage.entries(OTHER)

    async def test_a_whole_log_brings_its_checkpoints_when_asked(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        for n in range(4):
            await diary.mark(id=f"chk_{n}")
        child = await diary.fork(3, OTHER)
        await child.mark(id="chk_9")
        for after in range(5):
            log = await storage.log(OTHER, after=after, checkpoints=True)
            assert log is not None
            marks = (await storage.checkpoints(OTHER, CheckpointQuery(limit=99)))[::-1]
            assert log.checkpoints == [mark for mark in marks if mark.entry > after]
        bare = await storage.log(OTHER)
        assert bare is not None
        assert bare.checkpoints == []

    async def test_there_is_no_whole_log_without_a_thread(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.log(THREAD) is None
        await scribe.append()
        await storage.delete(THREAD)
        assert await storage.log(THREAD) is None

    async def test_a_whole_log_fits_itself_beside_prunes(
        self, storage: Storage, scribe: Scribe, place: Place, together: Together
    ) -> None:
        diary, second = Diary(scribe), await place.ready()
        await diary.add(2)

        async def pruning() -> None:
            for _ in range(ROUNDS):
                await diary.add(3)
                await prune(diary, (diary.head - 3, diary.head))

        async def reading() -> list[WholeLog | None]:
            return [await second.log(THREAD) for _ in range(ROUNDS)]

        _, *read = await together([pruning(), *[reading() for _ in range(3)]])
        for log in (log for logs in read for log in logs):
            assert [entry.version for entry in log.entries] == list(range(1, log.row.head + 1))
            assert len([step for _, step in walk("t1", log.entries, log.records) if step]) == _changes(log)


def _changes(log: WholeLog) -> int:
    """Those that are there, and one for each range."""
    there = [entry for entry in log.entries if entry.changes_state and not is_blank(entry)]
    return len(there) + len(log.records)


async def _pruned_fork(scribe: Scribe) -> Diary:
    """A fork of a thread, with rewinds and pruned ranges on both sides."""
    diary = Diary(scribe)
    await diary.add(5)
    await diary.back(2)
    await diary.add(3)
    await prune(diary, (3, 5), base=2)
    child = await diary.fork(8, OTHER)
    await child.say()
    await child.add(4)
    await child.back(10)
    await child.add(3)
    await prune(child, (14, 16))
    return child
