"""The lock that is laid down while somebody waits."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import time
import weakref
from types import FrameType

from perdure.core.ports import Silence
from perdure.storage.baton import Baton, all_laid_down
from perdure.storage.sql.retrying import Asking, Outage

PATIENCE = 10.0


def _is_free(baton: Baton) -> bool:
    """Whether another thread can have it at once."""
    got: list[bool] = []

    def look() -> None:
        got.append(baton.held.acquire(blocking=False))
        if got[0]:
            baton.held.release()

    other = threading.Thread(target=look)
    other.start()
    other.join(PATIENCE)
    return got == [True]


def test_it_is_laid_down_wholly_and_held_as_often_as_before() -> None:
    baton = Baton()
    with baton.held, baton.held:
        assert not _is_free(baton)
        with baton.laid_down():
            assert _is_free(baton)
            with baton.laid_down():  # nothing is left to lay down
                assert _is_free(baton)
        assert not _is_free(baton)
        baton.held.release()
        assert not _is_free(baton)
        baton.held.acquire()
    assert _is_free(baton)


def test_all_that_a_thread_holds_are_laid_down_and_no_others() -> None:
    mine, both, theirs, nobodys = Baton(), Baton(), Baton(), Baton()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with theirs.held:
            held.set()
            done.wait(PATIENCE)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(PATIENCE)
    with mine.held, both.held:
        with all_laid_down():
            assert [_is_free(each) for each in (mine, both, theirs, nobodys)] == [True, True, False, True]
        assert [_is_free(each) for each in (mine, both, theirs, nobodys)] == [False, False, False, True]
    done.set()
    other.join(PATIENCE)
    assert all(_is_free(each) for each in (mine, both, theirs, nobodys))


def test_threads_that_hold_two_go_on_after_a_wait() -> None:
    one, two = Baton(), Baton()
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    finished: list[None] = []

    def work() -> None:
        for _ in range(2000):
            with one.held, two.held, all_laid_down():
                time.sleep(0)
        finished.append(None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    sys.setswitchinterval(often)
    assert len(finished) == 2


def test_one_that_nobody_needs_is_let_go() -> None:
    baton = Baton()
    gone = weakref.ref(baton)
    del baton
    gc.collect()
    assert gone() is None


def test_interrupts_at_any_moment_never_keep_it_from_others() -> None:
    before = signal.signal(signal.SIGALRM, _interrupt)
    outage, rng, came = Outage("a server", Silence()), random.Random(1), 0
    for _ in range(300):
        baton = Baton()
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(2e-6, 2e-4))
        came += _is_interrupted(baton, outage)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert _is_free(baton)
    signal.signal(signal.SIGALRM, before)
    assert came > 20


def _is_interrupted(baton: Baton, outage: Outage) -> bool:
    try:
        for _ in range(2000):
            baton.drive(_ask(baton, outage))
    except KeyboardInterrupt:
        return True
    return False


async def _ask(baton: Baton, outage: Outage) -> None:
    with Asking(baton, outage):
        pass


AIMED_AT = {each.__code__ for each in (Asking.__enter__, Asking.__exit__, Baton.lay_down, Baton.take_up)}


def _interrupt(number: int, frame: FrameType | None) -> None:
    if frame is not None and frame.f_code in AIMED_AT:
        raise KeyboardInterrupt
