"""Points that are looked for while another process writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.errors import NotFoundError
from perdure.sync import Perdure, Thread
from tests.interruption import Interruption

ACTS: dict[str, Callable[[Thread], object]] = {
    "write": lambda thread: thread.save({"n": 2}),
    "delete": lambda thread: thread.delete(),
    "make again": lambda thread: (thread.delete(), thread.save({"n": 2})),
}


@pytest.mark.parametrize("act", ["write", "delete", "make again"])
@pytest.mark.parametrize("ref", ["chk_00000000000000000000000000", "@99"])
def test_a_checkpoint_that_is_not_there_is_absent_whatever_others_do(tmp_path: Path, ref: str, act: str) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            other.save({"n": 1})
            met = Interruption(ours._store._parts.storage, at, lambda other=other: ACTS[act](other))
            with pytest.raises(NotFoundError):
                ours.thread("t").load(ref)
            if not met.acted:
                break
    assert at > 1
