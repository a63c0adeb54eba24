"""A process is killed while it imports: a thread is there quarantined, or not at all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.errors import QuarantinedError
from perdure.sync import Perdure
from tests.checkpoints.places import PLACES
from tests.hostile import forged_exports as forge

ROOT = Path(__file__).parents[2]
KILLS = 4


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgres", "mysql"])
def test_a_kill_leaves_nothing_that_runs(kind: str, tmp_path: Path) -> None:
    ran: list[object] = []
    with Perdure.open("memory://") as theirs:
        theirs.handler("release")(lambda run: None)
        theirs.start("release", {"env": "prod"}, thread="job", user="mallory")
        theirs.thread("job", user="mallory").add_messages(*["word " * 500] * 50)
        theirs.export("job", tmp_path / "job", user="mallory")
    (url, _), lots = PLACES[kind](tmp_path), random.Random(7)
    with Perdure.open(url):
        pass
    for _ in range(KILLS):
        command = [sys.executable, "-m", "tests.hostile.importing_child", url, str(tmp_path)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.05 + lots.random() * 0.2)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with Perdure.open(url) as store:
            store.handler("release")(lambda run: ran.append(run.input))
            assert store.recover() == []
            for info in store.threads(limit=10_000):
                assert (info.quarantined is not None, info.origin) == (True, forge.origin_of(tmp_path / "job"))
                assert info.version == 51
            assert store.verify().damaged == []
    with Perdure.open(url) as store:
        assert len(store.threads()) > 1
        with pytest.raises(QuarantinedError):
            store.resume("t0", user="alice")
    assert ran == []
