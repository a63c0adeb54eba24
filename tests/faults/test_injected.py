"""System calls that fail: what the caller is told, and what is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.strace import available

ROOT = Path(__file__).parents[2]
Findings = dict[str, list[str]]


@pytest.fixture(scope="module", params=["sqlite", "file"])
def findings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """What went wrong, by category, when every writing call of four kinds of saves failed with EIO and ENOSPC."""
    if not available():
        assert not os.environ.get("PERDURE_TEST_ALL"), "strace is needed"
        pytest.skip("not shown: strace is not here, or may not attach to a process")
    answer = tmp_path_factory.mktemp("injected") / "findings.json"
    # A process of its own: children are forked, and this one has threads of the test runner.
    command = [sys.executable, "-m", "tests.faults.injected", "--backend", request.param, "--json", str(answer)]
    run = subprocess.run(
        [*command, "--sample", "4"], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    print(run.stdout)
    found: Findings = {}
    for kind, words in json.loads(answer.read_text()):
        found.setdefault(kind, []).append(words)
    return found


def test_a_call_that_fails_gives_a_typed_error(findings: Findings) -> None:
    assert findings.get("untyped", []) == []


def test_a_failed_fsync_is_never_acknowledged(findings: Findings) -> None:
    assert findings.get("unsynced", []) == []


def test_a_retry_in_the_same_process_works_after_a_call_failed(findings: Findings) -> None:
    assert findings.get("retry", []) == []


def test_after_a_failed_call_everything_acknowledged_is_there_and_nothing_half(findings: Findings) -> None:
    assert findings.get("left", []) == []
