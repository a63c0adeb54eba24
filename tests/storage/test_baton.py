"""The lock that is laid down while somebody waits."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import pytest

from perdure.storage.baton import Baton, all_laid_down

PATIENCE = 10.0


def _is_free(baton: Baton) -> bool:
    """Whether another thread can have it at once."""
    got: list[bool] = []

    def look() -> None:
        got.append(baton._lock.acquire(blocking=False))
        if got[0]:
            baton._lock.release()

    other = threading.Thread(target=look)
    other.start()
    other.join(PATIENCE)
    return got == [True]


def test_it_is_laid_down_wholly_and_held_as_often_as_before() -> None:
    baton = Baton()
    with baton, baton:
        assert not _is_free(baton)
        with baton.laid_down():
            assert _is_free(baton)
            with baton.laid_down():  # nothing is left to lay down
                assert _is_free(baton)
        assert not _is_free(baton)
        baton.__exit__()
        assert not _is_free(baton)
        baton.__enter__()
    assert _is_free(baton)


def test_all_that_a_thread_holds_are_laid_down_and_no_others() -> None:
    mine, both, theirs, nobodys = Baton(), Baton(), Baton(), Baton()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with theirs:
            held.set()
            done.wait(PATIENCE)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(PATIENCE)
    with mine, both:
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
            with one, two, all_laid_down():
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


class Interrupted(Baton):
    """A Ctrl-C comes while it is waited for."""

    def take_up(self, depth: int) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_while_it_is_taken_up_leaves_it_to_its_holder() -> None:
    baton, held, done = Interrupted(), threading.Event(), threading.Event()

    def hold() -> None:
        with baton:
            held.set()
            done.wait(PATIENCE)

    def wait() -> None:
        with baton, baton.laid_down():
            other.start()
            assert held.wait(PATIENCE)

    other = threading.Thread(target=hold)
    with pytest.raises(KeyboardInterrupt):
        wait()
    assert (baton._holder, baton._depth) == (other.ident, 1)
    done.set()
    other.join(PATIENCE)
    with baton:
        assert baton.lay_down() == 1
    assert _is_free(baton)
