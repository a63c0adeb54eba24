"""Background writes: what is promised, what is told when a promise cannot be kept, and what is never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.checkpoints.requests import Request
from perdure.core.changes import Change
from perdure.core.checkpoint import CheckpointQuery
from perdure.core.codec import decode
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import (
    InvalidInputError,
    LeaseHeldError,
    StorageClosedError,
    StorageFullError,
    SuspendedError,
    VersionConflictError,
)
from perdure.core.identity import ThreadKey
from perdure.core.threads import Lease, ThreadPatch, ThreadQuery
from perdure.core.writes import Appended, Write
from perdure.storage.background.errors import BackgroundWriteError
from perdure.storage.background.ports import LoopQueue, ThreadQueue, open_queue
from perdure.storage.background.store import BackgroundStorage
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.storage.ports import pause_anywhere
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Contract, Mode
from perdure.testing.contract.running import Run, Together
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe, blob_of, snapshot_of
from tests.contract.backends import MODES
from tests.storage.hot import Heard, engine

CLIENTS = 8
FULL, LOST, MOVED = (f"perdure.background.{name}" for name in ("full", "lost", "moved"))
FAR = 4_000_000_000 * 1_000_000


class Listening(Heard):
    """Remembers the fields of log lines too."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, object]] = []

    def log(self, level: str, message: str, /, **fields: object) -> None:
        super().log(level, message, **fields)
        self.fields.append(fields)

    def waiting(self) -> int:
        """How many writes are queued."""
        queued, applied, lost = (self.counts[f"perdure.background.{name}"] for name in ("queued", "applied", "lost"))
        return queued - applied - lost

    def levels(self) -> list[str]:
        return [level for level, _ in self.lines]


class Slow(MemoryStorage):
    """A storage whose appends wait while it is shut, and fail when asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.shut = False
        self.fails: ThreadKey | None = None
        self.order: list[bytes] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.claiming = False
        self.late = 0

    async def append(self, write: Write) -> Appended:
        while self.shut:
            await pause_anywhere(0.001)
        self.meanwhile()
        if write.key == self.fails:
            raise StorageFullError("memory://", "no space")
        done = await super().append(msgspec.structs.replace(write, micros=write.micros + self.late))
        self.order.append(write.write_id)
        return done

    async def claim(self, key: ThreadKey, owner: str, **when: Any) -> Lease:
        self.claiming = True
        await pause_anywhere(0.02)
        return await super().claim(key, owner, **when)


class Stranger(MemoryStorage):
    """The same storage in another process, whose writes do not wait where ours do."""

    def __init__(self, inner: Slow) -> None:
        self.__dict__ = inner.__dict__


class Scene:
    """A slow storage behind a queue, and somebody who writes past the queue."""

    def __init__(self, mode: Mode, **options: Any) -> None:
        self.inner = Slow()
        self.heard = Listening()
        self.clock = ManualClock()
        self.storage = BackgroundStorage(self.inner, open_queue(mode), telemetry=self.heard, **options)
        self.scribe = Scribe(self.storage, self.clock)
        self.stranger = Scribe(Stranger(self.inner), self.clock, seed=2)

    async def queue(self, count: int, **fields: Any) -> list[Appended]:
        """Make the thread, and queue `count` writes that the storage does not have yet."""
        await self.scribe.append()
        self.inner.shut = True
        return [await self.scribe.append(**fields) for _ in range(count)]

    async def close(self) -> None:
        self.inner.shut = False
        with suppress(BackgroundWriteError):
            await self.storage.close()


class OnScene(Contract):
    @pytest.fixture(params=MODES)
    def mode(self, request: pytest.FixtureRequest) -> Mode:
        return request.param

    @pytest.fixture
    def scene(self, mode: Mode, run: Run) -> Iterator[Scene]:
        scene = Scene(mode)
        yield scene
        run(scene.close())

    @pytest.fixture
    def small(self, mode: Mode, run: Run) -> Iterator[Scene]:
        """One whose queue is full with two writes."""
        scene = Scene(mode, max_pending=2)
        yield scene
        run(scene.close())


class TestPromises(OnScene):
    async def test_a_write_is_answered_before_the_storage_has_it(self, scene: Scene) -> None:
        made = await scene.queue(3)
        assert [each.version for each in made] == [2, 3, 4]
        assert len(await scene.inner.entries(THREAD)) == 1
        scene.inner.shut = False
        await scene.storage.flush()
        assert await scene.inner.thread(THREAD) == made[-1].row

    async def test_the_answer_is_the_storages_own(self, scene: Scene) -> None:
        mark, patch = scene.scribe.mark(metadata={"a": 1}), ThreadPatch(name="n", tags=("x",))
        await scene.queue(1)
        write = scene.scribe.write(THREAD, STATE, MESSAGE, checkpoint=mark, patch=patch, blobs=(blob_of("b"),))
        made = await scene.storage.append(write)
        scene.inner.shut = False
        assert await scene.storage.thread(THREAD) == made.row
        assert await scene.storage.checkpoints(THREAD, CheckpointQuery()) == [made.checkpoint]
        assert await scene.storage.blobs(THREAD, [blob_of("b").digest]) == {blob_of("b").digest: blob_of("b").payload}
        assert (made.version, made.state_version, made.before) == (4, 3, 2)
        assert verify_links("t1", 0, GENESIS, await scene.storage.entries(THREAD)) == made.row.head_digest

    async def test_a_stale_writer_is_refused_by_what_is_queued(self, scene: Scene, together: Together) -> None:
        await scene.queue(2)
        stale = scene.scribe.write(THREAD, expected=1)
        refused, _ = await together([scene.storage.append(stale), _opened(scene)])
        assert isinstance(refused, VersionConflictError)
        assert (refused.expected, refused.actual) == (1, 3)

    async def test_the_write_that_makes_a_thread_is_durable_at_once(self, scene: Scene) -> None:
        made = await scene.scribe.append()
        assert await scene.inner.thread(THREAD) == made.row

    async def test_a_write_with_a_key_is_durable_at_once_and_after_what_was_queued(
        self, scene: Scene, together: Together
    ) -> None:
        await scene.queue(2)
        keyed = scene.scribe.write(THREAD, idem_key="k", request=b"r")
        made, _ = await together([scene.storage.append(keyed), _opened(scene)])
        assert await scene.inner.thread(THREAD) == made.row
        assert made.version == 4

    async def test_writes_of_a_thread_are_applied_in_their_order(self, scene: Scene) -> None:
        keys = [ThreadKey("", "alice", f"t{n}") for n in range(5)]
        for key in keys:
            await scene.scribe.append(key)
        scene.inner.shut, scene.inner.order = True, []
        made = {key: [] for key in keys}  # type: ignore[var-annotated]
        for n in range(100):
            write = scene.scribe.write(keys[n * n % 5], STATE, MESSAGE)
            await scene.storage.append(write)
            made[write.key].append(write.write_id)
        scene.inner.shut = False
        await scene.storage.flush()
        for ids in made.values():
            assert [each for each in scene.inner.order if each in set(ids)] == ids
        assert scene.heard.waiting() == 0

    async def test_a_listing_sees_everything_that_was_acknowledged(self, scene: Scene, together: Together) -> None:
        made = await scene.queue(2)
        listed, found, _ = await together(
            [scene.storage.threads(ThreadQuery()), scene.storage.find("", "t1"), _opened(scene)]
        )
        assert listed == found == [made[-1].row]

    async def test_every_client_reads_its_own_writes(self, scene: Scene, together: Together) -> None:
        async def client(n: int) -> None:
            key = (THREAD, OTHER)[n % 2]
            for _ in range(20):
                made = await scene.storage.append(scene.scribe.write(key, MESSAGE))
                entries = await scene.storage.entries(key)
                assert entries[made.version - 1].chain == made.row.head_digest
                restored = await scene.storage.restore(key)
                assert restored is not None
                assert restored.row.head >= made.version

        assert await together([client(n) for n in range(CLIENTS)]) == [None] * CLIENTS
        assert scene.heard.lines == []

    async def test_leases_and_writes_of_one_process_never_break_a_promise(
        self, scene: Scene, together: Together
    ) -> None:
        await scene.scribe.append()

        async def leaser() -> int:
            for _ in range(20):
                lease = await scene.storage.claim(THREAD, "me", until=FAR, now=scene.clock.now())
                await scene.storage.append(scene.scribe.write(THREAD, epoch=lease.epoch))
                await scene.storage.release(THREAD, lease.epoch)
            return 20

        async def writer() -> int:
            tries = [scene.storage.append(scene.scribe.write(THREAD)) for _ in range(20)]
            return sum([isinstance(await _tried(each), Appended) for each in tries])

        landed = await together([leaser(), *(writer() for _ in range(CLIENTS - 1))])
        assert len(await scene.storage.entries(THREAD)) == 1 + sum(landed)
        assert scene.heard.lines == []

    async def test_a_write_waits_for_a_claim_that_is_under_way(self, scene: Scene, together: Together) -> None:
        await scene.scribe.append()
        write = scene.scribe.write(THREAD)

        async def writer() -> Appended:
            await _sees(lambda: scene.inner.claiming)
            scene.inner.shut = True
            return await scene.storage.append(write)

        claim = scene.storage.claim(THREAD, "me", until=FAR, now=scene.clock.now())
        lease, refused, _ = await together([claim, writer(), _opened(scene, lambda: scene.inner.shut)])
        assert lease.epoch == 1
        assert isinstance(refused, LeaseHeldError)
        assert scene.heard.lines == []


async def _opened(scene: Scene, when: Callable[[], bool] = lambda: True) -> None:
    """Let the storage go on a moment later."""
    await pause_anywhere(0.02)
    await _sees(when)
    scene.inner.shut = False


async def _sees(what: Callable[[], object]) -> None:
    while not what():
        await pause_anywhere(0.001)


async def _tried(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as exc:
        return exc


class TestBounds(OnScene):
    async def test_a_full_queue_makes_writers_wait_and_says_so_once(self, small: Scene, together: Together) -> None:
        await small.queue(2)

        async def opened_when_all_wait() -> int:
            await _sees(lambda: small.heard.counts[FULL] == 5)
            queued = small.heard.waiting()
            small.inner.shut = False
            return queued

        works = [small.storage.append(small.scribe.write(THREAD)) for _ in range(5)]
        *made, queued = await together([*works, opened_when_all_wait()])
        assert queued == 2
        assert sorted(each.version for each in made) == [4, 5, 6, 7, 8]
        assert small.heard.levels() == ["warning"]

    async def test_every_episode_is_told(self, small: Scene, together: Together) -> None:
        await small.scribe.append()
        for episode in (1, 2):
            small.inner.shut = True
            works = [small.storage.append(small.scribe.write(THREAD)) for _ in range(3)]
            await together([*works, _opened(small, lambda episode=episode: len(small.heard.lines) == episode)])
            await small.storage.flush()
        assert small.heard.levels() == ["warning", "warning"]

    async def test_an_empty_queue_is_refused(self, mode: Mode) -> None:
        for wrong in (0, -1, True, 2.5):
            with pytest.raises(InvalidInputError):
                BackgroundStorage(MemoryStorage(), open_queue(mode), max_pending=wrong)  # type: ignore[arg-type]


Touch = Callable[[Scene], Awaitable[Any]]
TOUCHES: dict[str, Touch] = {
    "append": lambda scene: scene.scribe.append(),
    "append with a key": lambda scene: scene.scribe.append(idem_key="k", request=b"r"),
    "thread": lambda scene: scene.storage.thread(THREAD),
    "restore": lambda scene: scene.storage.restore(THREAD),
    "claim": lambda scene: scene.storage.claim(THREAD, "me", until=1, now=0),
    "fork": lambda scene: scene.scribe.fork(THREAD, 1, OTHER),
    "delete": lambda scene: scene.storage.delete(THREAD),
    "flush": lambda scene: scene.storage.flush(),
    "close": lambda scene: scene.storage.close(),
}


class TestBrokenPromises(OnScene):
    @pytest.mark.parametrize("touch", TOUCHES)
    async def test_lost_writes_are_told_at_the_next_touch(self, scene: Scene, touch: str) -> None:
        await _lost_after_version_1(scene, 3)
        with pytest.raises(BackgroundWriteError, match="VersionConflictError") as caught:
            await TOUCHES[touch](scene)
        (broken,) = caught.value.broken
        assert (caught.value.thread_id, caught.value.version) == ("t1", 1)
        assert (broken.key, broken.lost, broken.moved) == (THREAD, 3, 0)

    async def test_lost_writes_are_logged_and_counted_at_once(self, scene: Scene) -> None:
        await _lost_after_version_1(scene, 3)
        (fields,) = scene.heard.fields
        assert scene.heard.levels() == ["error"]
        assert (fields["thread"], fields["user"], fields["version"], fields["writes"]) == ("t1", "alice", 1, 3)
        assert (scene.heard.counts[LOST], scene.heard.waiting()) == (3, 0)

    async def test_after_it_was_told_the_thread_goes_on_from_its_true_head(self, scene: Scene) -> None:
        await _lost_after_version_1(scene, 2)
        with pytest.raises(BackgroundWriteError):
            await scene.scribe.append(expected=3)
        assert (await scene.scribe.append(expected=2)).version == 3
        await scene.storage.flush()
        assert len(await scene.storage.entries(THREAD)) == 3

    async def test_whoever_remembers_the_thread_hears_of_it_first(self, scene: Scene) -> None:
        """Else versions that were lost, and belong to a stranger's writes by now, would be taken for known ones."""
        ours = engine(scene.storage)
        scene.storage._on_broken = ours.forget
        for n in range(4):
            await ours.change(THREAD, _turn(n), None, Request())
            scene.inner.shut = True
        for n in range(10, 13):
            await engine(Stranger(scene.inner)).change(THREAD, _turn(n), None, Request())
        scene.inner.shut = False
        with pytest.raises(BackgroundWriteError):
            await scene.storage.entries(THREAD)
        await ours.change(THREAD, _turn(99), None, Request())
        for each in (ours, engine(scene.inner)):
            assert decode((await each.head(THREAD)).document.encoded()) == {"turns": [0, 10, 11, 12, 99]}

    async def test_a_snapshot_does_not_take_the_news_with_it(self, scene: Scene) -> None:
        """Whoever writes snapshots goes on when one fails; of a lost version none is kept."""
        await _lost_after_version_1(scene, 2)
        row = await scene.inner.thread(THREAD)
        assert row is not None
        await scene.storage.drop_snapshot(THREAD, 1)
        assert not await scene.storage.put_snapshot(THREAD, row.uid, snapshot_of(2))
        with pytest.raises(BackgroundWriteError):
            await scene.storage.thread(THREAD)
        assert await scene.storage.put_snapshot(THREAD, row.uid, snapshot_of(2))

    async def test_a_listing_goes_on(self, scene: Scene) -> None:
        await _lost_after_version_1(scene, 2)
        assert await scene.storage.threads(ThreadQuery()) == [await scene.inner.thread(THREAD)]

    async def test_a_write_on_lost_ones_is_lost_with_them(self, scene: Scene) -> None:
        await scene.scribe.append()
        scene.inner.shut = True
        await scene.scribe.append(expected=1)
        await scene.scribe.append()  # expects nothing in particular, but was promised version 3
        await scene.stranger.append()
        scene.inner.shut = False
        with pytest.raises(BackgroundWriteError) as caught:
            await scene.storage.flush()
        assert caught.value.broken[0].lost == 2
        assert len(await scene.storage.entries(THREAD)) == 2

    async def test_a_lease_that_another_process_took_loses_queued_changes(self, scene: Scene) -> None:
        await scene.queue(2)
        await scene.inner.claim(THREAD, "stranger", until=FAR, now=scene.clock.now())
        scene.inner.shut = False
        with pytest.raises(BackgroundWriteError, match="LeaseHeldError"):
            await scene.storage.flush()
        assert len(await scene.storage.entries(THREAD)) == 1

    async def test_a_thread_that_another_process_deleted_is_not_made_again(self, scene: Scene) -> None:
        await scene.queue(2)
        await scene.inner.delete(THREAD)
        scene.inner.shut = False
        with pytest.raises(BackgroundWriteError, match="deleted"):
            await scene.storage.flush()
        assert await scene.storage.thread(THREAD) is None

    async def test_a_thread_that_another_process_made_anew_is_not_written(self, scene: Scene) -> None:
        await scene.queue(2)
        await scene.inner.delete(THREAD)
        await scene.stranger.append()
        scene.inner.shut = False
        with pytest.raises(BackgroundWriteError, match="VersionConflictError"):
            await scene.storage.flush()
        assert len(await scene.storage.entries(THREAD)) == 1

    async def test_a_storage_that_cannot_write_loses_one_thread_and_not_the_others(self, scene: Scene) -> None:
        await scene.scribe.append(OTHER)
        await scene.queue(2)
        others = [await scene.scribe.append(OTHER) for _ in range(3)]
        scene.inner.fails, scene.inner.shut = THREAD, False
        with pytest.raises(BackgroundWriteError, match="no space") as caught:
            await scene.storage.close()
        assert (caught.value.thread_id, caught.value.version, caught.value.broken[0].lost) == ("t1", 1, 2)
        assert scene.inner._logs[others[-1].row.uid].row == others[-1].row

    async def test_closing_names_every_thread(self, scene: Scene) -> None:
        await scene.scribe.append(OTHER)
        await scene.queue(1)
        await scene.scribe.append(OTHER)
        await scene.inner.delete(OTHER)
        await scene.inner.delete(THREAD)
        scene.inner.shut = False
        with pytest.raises(BackgroundWriteError, match="1 more threads") as caught:
            await scene.storage.close()
        assert {broken.key for broken in caught.value.broken} == {THREAD, OTHER}
        await scene.storage.close()

    async def test_a_write_that_stands_elsewhere_is_told_and_not_called_lost(self, scene: Scene) -> None:
        await scene.queue(1, entries=(scene.scribe.entry(MESSAGE),))
        await scene.stranger.append(THREAD, MESSAGE)
        scene.inner.shut = False
        with pytest.raises(BackgroundWriteError, match="version 2 was answered, 3 it is") as caught:
            await scene.storage.thread(THREAD)
        assert (caught.value.broken[0].lost, caught.value.broken[0].moved) == (0, 1)
        assert (scene.heard.counts[MOVED], scene.heard.counts[LOST]) == (1, 0)
        assert len(await scene.storage.entries(THREAD)) == 3
        assert (await scene.scribe.append()).version == 4

    async def test_nothing_is_promised_on_a_line_that_is_known_to_be_wrong(
        self, scene: Scene, together: Together
    ) -> None:
        await scene.queue(2, entries=(scene.scribe.entry(MESSAGE),))
        await scene.stranger.append(THREAD, MESSAGE)
        scene.inner.meanwhile = lambda: setattr(scene.inner, "shut", True)  # after one write
        scene.inner.shut = False
        await _sees(lambda: scene.heard.lines)
        told, _ = await together([scene.storage.append(scene.scribe.write(THREAD)), _opened(scene)])
        assert isinstance(told, BackgroundWriteError)
        assert told.broken[0].moved == 2
        scene.inner.meanwhile = lambda: None
        scene.inner.shut = False
        assert (await scene.scribe.append()).version == 5

    async def test_a_storage_with_a_time_of_its_own_is_noticed(self, scene: Scene) -> None:
        await scene.scribe.append()
        scene.inner.late = 5
        await scene.scribe.append()
        with pytest.raises(BackgroundWriteError, match="version 2 has another digest") as caught:
            await scene.storage.flush()
        assert (caught.value.version, caught.value.broken[0].moved) == (1, 1)


def _turn(n: int) -> Change:
    return Change({}, {"turns": [n]}, [])


async def _lost_after_version_1(scene: Scene, count: int) -> None:
    """Queue writes, let a stranger be first, and wait until that was noticed."""
    await scene.scribe.append()
    scene.inner.shut = True
    for expected in range(1, count + 1):
        await scene.scribe.append(expected=expected)
    await scene.stranger.append()
    scene.inner.shut = False
    await _sees(lambda: scene.heard.lines)


class TestEnds(OnScene):
    async def test_closing_makes_everything_durable_and_closes_the_storage(self, scene: Scene) -> None:
        made = await scene.queue(3)
        scene.inner.shut = False
        await scene.storage.close()
        assert scene.inner._logs[made[-1].row.uid].row == made[-1].row
        with pytest.raises(StorageClosedError):
            await scene.inner.thread(THREAD)
        with pytest.raises(StorageClosedError):
            await scene.scribe.append()

    async def test_nothing_is_acknowledged_any_more_while_it_closes(self, scene: Scene, together: Together) -> None:
        made = await scene.queue(3)

        async def late() -> Appended:
            await _sees(lambda: scene.storage._closing)
            try:
                return await scene.scribe.append()
            finally:
                scene.inner.shut = False

        closed, refused = await together([scene.storage.close(), late()])
        assert closed is None
        assert isinstance(refused, StorageClosedError)
        assert scene.inner._logs[made[-1].row.uid].row == made[-1].row

    async def test_a_writer_that_waits_for_room_is_told_of_the_closing(self, small: Scene, together: Together) -> None:
        await small.queue(2)

        async def closing() -> None:
            await _opened(small, lambda: small.heard.counts[FULL] > 0)
            await small.storage.close()

        waiting = small.storage.append(small.scribe.write(THREAD))
        answer, closed = await together([waiting, closing()])
        assert closed is None
        landed = isinstance(answer, Appended)
        assert landed or isinstance(answer, StorageClosedError)
        (log,) = small.inner._logs.values()
        assert log.row.head == 3 + landed


def test_a_finaliser_on_the_writers_own_thread_does_not_wait_for_itself() -> None:
    scene = Scene("sync")
    made = drive(scene.queue(3))
    assert isinstance(scene.storage._queue, ThreadQueue)
    thread = scene.storage._queue._thread
    assert thread is not None
    scene.inner.meanwhile = lambda: drive(scene.storage.close())  # as the garbage collector may, on any thread
    scene.inner.shut = False
    thread.join(30)
    assert scene.inner._closed
    assert scene.inner._logs[made[-1].row.uid].row == made[-1].row


async def test_a_finaliser_leaves_the_rest_to_the_event_loop_that_runs() -> None:
    scene = Scene("async")
    made = await scene.queue(3)
    with pytest.raises(SuspendedError):  # what drives the finaliser may ignore it
        drive(scene.storage.close())
    assert not scene.inner._closed
    scene.inner.shut = False
    while not scene.inner._closed:
        await asyncio.sleep(0.001)
    assert scene.inner._logs[made[-1].row.uid].row == made[-1].row
    assert scene.heard.lines == []


def test_a_finaliser_without_an_event_loop_says_how_much_is_lost() -> None:
    scene = Scene("async")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(scene.queue(3))
    drive(scene.storage.close())
    assert (scene.heard.levels(), scene.heard.fields, scene.heard.counts[LOST]) == (["error"], [{"writes": 3}], 3)
    assert scene.inner._closed
    _end(loop, scene)


def _end(loop: asyncio.AbstractEventLoop, scene: Scene) -> None:
    """End a loop as `asyncio.run` does."""
    scene.inner.shut = False
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()


def test_the_end_of_an_event_loop_waits_for_what_was_acknowledged(tmp_path: Path) -> None:
    """Every kind of write, also those that nobody could find again without being asked to: none is made twice."""
    heard = Listening()
    inner = SqliteStorage(str(tmp_path / "agents.db"), mode="async", telemetry=heard)
    storage = BackgroundStorage(inner, open_queue("async"), telemetry=heard)
    scribe = Scribe(storage, ManualClock())

    async def forgetful(count: int) -> Appended:
        await storage.setup()
        writes = [scribe.write((THREAD, OTHER)[n % 2], MESSAGE) for n in range(count)]
        return [await storage.append(write) for write in writes][-1]

    for total, count in ((50, 50), (101, 51), (102, 1), (152, 50)):
        asyncio.run(forgetful(count))
        assert _standing(tmp_path) == total
    asyncio.run(storage.close())
    assert heard.lines == []


def _standing(folder: Path) -> int:
    """How many entries there are, as another opening sees it; each log is a chain."""
    fresh = SqliteStorage(str(folder / "agents.db"), mode="sync")
    rows = drive(fresh.threads(ThreadQuery()))
    for row in rows:
        assert verify_links(row.key.id, 0, GENESIS, drive(fresh.entries(row.key))) == row.head_digest
    drive(fresh.close())
    return sum(row.head for row in rows)


def test_what_an_event_loop_left_undone_is_done_by_the_next() -> None:
    scene = Scene("async")
    loop = asyncio.new_event_loop()
    made = loop.run_until_complete(scene.queue(3))
    queue = scene.storage._queue
    assert isinstance(queue, LoopQueue)
    tasks = [task for tasks in queue._tasks.values() for task in tasks]
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio would complain, and rightly so
    loop.close()
    scene.inner.shut = False
    assert asyncio.run(scene.storage.thread(THREAD)) == made[-1].row
    assert asyncio.run(scene.storage.entries(THREAD)) == drive(scene.inner.entries(THREAD))
    asyncio.run(scene.close())
    assert scene.heard.lines == []


async def test_a_cancelled_caller_leaves_the_thread_to_others() -> None:
    scene = Scene("async", max_pending=2)
    await scene.queue(2)
    for work in (scene.scribe.append(), scene.storage.claim(THREAD, "me", until=1, now=0), scene.storage.flush()):
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    scene.inner.shut = False
    assert (await scene.scribe.append()).version == 4
    await scene.close()


@pytest.mark.parametrize("mode", MODES)
def test_two_openings_see_each_other_after_a_flush(mode: Mode, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        run: Any = drive if mode == "sync" else runner.run
        first, second = (_on_sqlite(mode, tmp_path) for _ in range(2))
        run(first.setup())
        scribe = Scribe(first, ManualClock())
        run(scribe.append())
        for expected, storage in ((1, second), (2, first), (3, second)):
            run(storage.append(scribe.write(THREAD, expected=expected)))
            run(storage.flush())
        assert run(first.entries(THREAD)) == run(second.entries(THREAD))
        assert len(run(first.entries(THREAD))) == 4
        run(first.close())
        run(second.close())


@pytest.mark.parametrize("mode", MODES)
def test_whatever_two_openings_take_from_each_other_is_named(mode: Mode, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        run: Any = drive if mode == "sync" else runner.run
        both = [_on_sqlite(mode, tmp_path) for _ in range(2)]
        run(both[0].setup())
        scribe = Scribe(both[0], ManualClock())
        run(scribe.append())
        answers = [_answer(run, both[n % 2].append(scribe.write(THREAD, expected=n % 3 or None))) for n in range(60)]
        landed = sum(isinstance(answer, Appended) for answer in answers)
        told = [*answers, *(_answer(run, storage.close()) for storage in both)]
        lost = sum(broken.lost for each in told if isinstance(each, BackgroundWriteError) for broken in each.broken)
        fresh = _on_sqlite(mode, tmp_path)
        entries = run(fresh.entries(THREAD))
        assert verify_links("t1", 0, GENESIS, entries)
        assert len(entries) == 1 + landed - lost
        run(fresh.close())


def _answer(run: Any, work: Awaitable[Any]) -> Any:
    try:
        return run(work)
    except (BackgroundWriteError, VersionConflictError) as exc:
        return exc


def _on_sqlite(mode: Mode, folder: Path) -> BackgroundStorage:
    return BackgroundStorage(SqliteStorage(str(folder / "agents.db"), mode=mode), open_queue(mode))
