"""Hector's approval: a server asks before it deploys, is stopped, upgraded and started again, in real processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.sync import Perdure
from tests.runtime.receiver import OK, receiving
from tests.seeds.approval_stage import config_in, did, done, perdure_command, process, until

FIRST, SECOND = ["first", "api", "1.4", "api"], ["second", "api", "1.4", "eu", "api", "ops"]


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def store(url: str) -> Iterator[Perdure]:
    """The same database, as somebody sees it who runs nothing."""
    with Perdure.open(url) as store:
        yield store


def status(store: Perdure, thread: str = "t") -> tuple[str, Any]:
    """How far the run of a thread is, and its result."""
    return next((each.status, each.result) for each in store.runs() if each.thread == thread)


def finished(store: Perdure) -> bool:
    return status(store)[0] == "finished"


def left_with_a_question(store: Perdure, url: str, folder: Path, by: signal.Signals = signal.SIGTERM) -> Any:
    """A server of the first release asks, and is stopped while it waits."""
    with receiving(OK) as receiver:
        config = config_in(folder, url, hook=receiver.url)
        with process("ask", config, folder) as server:
            (request,) = until(lambda: receiver.requests)
            (pause,) = store.pauses()
            assert json.loads(request.body)["pause"] == pause.id
            server.send_signal(by)
            assert server.wait(60) == (0 if by == signal.SIGTERM else -by)
    assert (status(store), did(folder)) == (("input_required", None), [])
    return pause


def approve_what_changed(store: Perdure, **decision: Any) -> None:
    """The tool of the next release has a parameter that nobody approved: it is asked about once more."""
    (pause,) = until(store.pauses)
    assert (pause.changed, pause.args["region"]) == (("argument region is new", "args.region is new"), "eu")
    store.decide(pause, approved=True, by="ann", **decision)


@pytest.mark.parametrize(("by", "how"), [(signal.SIGKILL, "recover"), (signal.SIGTERM, "serve")])
def test_a_deployment_that_was_approved_while_nothing_ran_is_done_once_by_the_next_release(
    store: Perdure, url: str, tmp_path: Path, by: signal.Signals, how: str
) -> None:
    """S4.3, S4.9, S4.19, S4.21–S4.25: with `auto_resume_hitl: true`, once the new parameter was approved too."""
    pause = left_with_a_question(store, url, tmp_path, by)
    assert (pause.ask, pause.args) == ("Approve api 1.4?", {"service": "api", "tag": "1.4"})
    assert [point.note for point in store.thread("t").history()] == ["Approve api 1.4?", "after turn 1"]
    assert perdure_command("decide", url, pause.id, "--approve", "--by", "ann") == 0
    config = config_in(tmp_path, url, auto_resume_hitl=True)
    if how == "recover":
        assert done("recover", config, tmp_path) == 0
        approve_what_changed(store)
        assert done("recover", config, tmp_path) == 0
    else:
        with process("serve", config, tmp_path, "second"):
            approve_what_changed(store)
            until(lambda: finished(store))
    assert (status(store), did(tmp_path)) == (("finished", "Deployed."), [SECOND])


@pytest.mark.parametrize(("how", "hitl"), [("resume", False), ("recover", True)])
def test_what_was_approved_stays_where_people_go_on_by_hand(
    store: Perdure, url: str, tmp_path: Path, how: str, hitl: bool
) -> None:
    """S4.20: with `auto_resume_hitl: false`, until `store.resume`, or a start with `true`; S4.24."""
    left_with_a_question(store, url, tmp_path)
    store.decide(store.pauses()[0], approved=True, by="ann", args={"service": "api", "tag": "1.5"})
    careful = config_in(tmp_path, url, auto_resume_hitl=False)
    assert done("look", careful, tmp_path) == 0
    assert (status(store), did(tmp_path)) == (("decided", None), [["short"]])
    config = config_in(tmp_path, url, auto_resume_hitl=hitl)
    assert done(how, config, tmp_path) == 0
    approve_what_changed(store, args={"service": "api", "tag": "1.5", "region": "eu"})
    assert done(how, config, tmp_path) == 0
    edited = ["second", "api", "1.5", "eu", "api", "ops"]
    assert (status(store), did(tmp_path)) == (("finished", "Deployed."), [["short"], edited])


@pytest.mark.parametrize("hitl", [True, False])
def test_what_is_decided_while_a_server_runs_is_taken_up_at_once(
    store: Perdure, url: str, tmp_path: Path, hitl: bool
) -> None:
    """S4.19, S4.20, S4.25: with either setting."""
    with process("ask", config_in(tmp_path, url, auto_resume_hitl=hitl), tmp_path):
        (pause,) = until(store.pauses)
        store.decide(pause, approved=True, by="ann", version=pause.version)
        until(lambda: finished(store))
    assert (status(store), did(tmp_path)) == (("finished", "Deployed."), [FIRST])


@pytest.mark.parametrize(
    ("what", "stands", "again", "ends"),
    [("long", "interrupted", [["end"]], "finished"), ("beside", "input_required", [["plan"]], "input_required")],
)
def test_a_run_that_was_cut_off_stays_while_new_ones_are_served(
    store: Perdure, url: str, tmp_path: Path, what: str, stands: str, again: list[Any], ends: str
) -> None:
    """S4.18: with `auto_resume: false`, until somebody resumes it, also when it was cut off beside a question."""
    config = config_in(tmp_path, url, auto_resume=False)
    with process(what, config, tmp_path) as server:
        assert server.wait(60) == -signal.SIGKILL
    assert done("look", config, tmp_path) == 0
    assert (status(store)[0], did(tmp_path)) == (stands, [["plan"], ["short"]])
    assert done("resume", config, tmp_path) == 0
    assert (status(store)[0], did(tmp_path)) == (ends, [["plan"], ["short"], *again])
