"""Hostile inputs on every storage: a sample of them, or with PERDURE_HOSTILE=all (`make hostile`) each one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure.errors import InvalidRefError, NotFoundError
from perdure.testing.servers import require, shared_mariadb, shared_postgres, shared_redis
from tests.hostile.campaign import BACKENDS, every_of_tests, known_inputs, run
from tests.hostile.catalogue import CANARY
from tests.hostile.judge import summary
from tests.hostile.scene import SECRET, leaks

_SERVERS = {"postgres": shared_postgres, "mysql": shared_mariadb, "hot": shared_redis}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.timeout(1800)
def test_no_hostile_input_is_executed_shows_anothers_data_or_ends_untyped(backend: str) -> None:
    for name, server in _SERVERS.items():
        if name in backend:
            require(server)
    tally = run(backend, every_of_tests())
    print(summary([tally]))
    assert tally.faults == []
    assert tally.calls >= len(tally.inputs) > 10


def test_there_are_hundreds_of_inputs_of_every_category() -> None:
    inputs = known_inputs()
    assert len(inputs) == len(set(map(str, inputs))) >= 300
    assert {each.category for each in inputs} == {
        "injection", "ids", "types", "refs", "searches", "paths", "filters", "yaml", "discovered settings", "links",
        "webhooks", "redis", "rows", "deserialisation", "imports",
        "bombs", "broken values", "forged exports", "terminal",
    }  # fmt: skip


def test_the_judge_sees_a_secret_wherever_it_is() -> None:
    inner, outer = NotFoundError(f"thread {SECRET!r}"), ValueError("it failed")
    outer.__cause__ = inner
    inner.__context__ = outer
    assert leaks(outer)
    assert leaks([{"a": (SECRET,)}])
    assert not leaks(["mine", InvalidRefError("@x"), 10**5000])


_JUDGED = """
import asyncio, os, pickle, subprocess, sys
from tests.hostile.canary import Canary
from tests.hostile.judge import Judge
from tests.hostile.scene import SECRET

class Evil:
    def __reduce__(self):
        return os.getpid, ()

async def one(work):
    canary = Canary()
    judge = Judge("test", canary)
    await judge.call("this", work)
    tally = judge.tally
    print(len(tally.foreign), len(tally.executions) > 0, len(tally.untyped))

async def work():
    {work}
asyncio.run(one(work))
"""


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("return 1", "0 False 0"),
        ("return [SECRET]", "1 False 0"),
        ("raise KeyError(SECRET)", "1 False 1"),
        ("raise LookupError('x')", "0 False 1"),
        ("os.system('true')", "0 True 0"),
        ("subprocess.run(['true'])", "0 True 0"),
        ("pickle.loads(pickle.dumps(Evil()))", "0 True 0"),
        (f"eval('{CANARY} if False else 1')", "0 True 0"),
        (f"open('/tmp/{CANARY}')", "0 True 1"),
        (f"import {CANARY}", "0 True 1"),
    ],
)
def test_the_judge_counts_what_a_store_must_never_do(work: str, expected: str) -> None:
    code = _JUDGED.replace("{work}", work)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (expected, "")
