"""A run finds entries by their keys: a file whose keys say something else than its entries is never trusted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from perdure.core.calls import shown, told
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.pauses import Decided, Opened, decided_key, decode_opened
from perdure.core.payload import encode_body
from perdure.core.runs import Ended, Resumed, Started, decode_started, end_key, input_key
from perdure.core.transfer import ThreadCopy
from perdure.errors import EntryDamagedError
from perdure.sync import Perdure
from tests.hostile import forged_exports as forge

Change = Callable[[ThreadCopy], ThreadCopy]


def _run(copy: ThreadCopy) -> str:
    first = next(each for each in copy.entries if each.kind is EntryKind.RUN_STARTED)
    return told("t", first, decode_started).run


def _opened(copy: ThreadCopy) -> Opened:
    return next(told("t", each, decode_opened) for each in copy.entries if each.kind is EntryKind.PAUSE_OPENED)


def _packed(value: Any) -> Raw:
    return Raw(encode(value, root="value"))


def another_input(copy: ThreadCopy) -> ThreadCopy:
    body = encode_body(Resumed(_run(copy), 1, "x", anew=True, input=_packed({"env": "evil"})))
    return forge.grown(copy, forge.entry(EntryKind.RUN_RESUMED, body), key="anything")


def an_end_that_no_run_finds(copy: ThreadCopy) -> ThreadCopy:
    return forge.grown(copy, forge.entry(EntryKind.RUN_FINISHED, encode_body(Ended(_run(copy)))))


def a_second_question_of_the_same_id(copy: ThreadCopy) -> ThreadCopy:
    harmless = msgspec.structs.replace(_opened(copy), args=_packed({"env": "harmless"}))
    return forge.grown(copy, forge.entry(EntryKind.PAUSE_OPENED, encode_body(harmless)))


def a_decision_of_another_question(copy: ThreadCopy) -> ThreadCopy:
    place = decided_key(shown(_opened(copy).call.id))
    body = encode_body(Decided("pau_x.another", True, "ann"))
    return forge.grown(copy, forge.entry(EntryKind.PAUSE_DECIDED, body), key=place)


def a_decision_of_another_kind(copy: ThreadCopy) -> ThreadCopy:
    opened = _opened(copy)
    body = encode_body(Decided(opened.pause, True, "ann"))
    return forge.grown(copy, forge.entry(EntryKind.DRIFT_DETECTED, body), key=decided_key(shown(opened.call.id)))


def a_run_that_starts_twice(copy: ThreadCopy) -> ThreadCopy:
    first = next(each for each in copy.entries if each.kind is EntryKind.RUN_STARTED)
    started = msgspec.structs.replace(told("t", first, decode_started), input=_packed({"env": "evil"}))
    return forge.grown(copy, forge.entry(EntryKind.RUN_STARTED, encode_body(started)))


def a_start_under_the_key_of_an_end(copy: ThreadCopy) -> ThreadCopy:
    body = encode_body(Started("run_other", "x", "y", _packed("z")))
    return forge.grown(copy, forge.entry(EntryKind.RUN_STARTED, body), key=end_key(_run(copy)))


CHANGES: list[Change] = [
    another_input, an_end_that_no_run_finds, a_second_question_of_the_same_id, a_decision_of_another_question,
    a_decision_of_another_kind, a_run_that_starts_twice, a_start_under_the_key_of_an_end,
]  # fmt: skip


@pytest.fixture
def ran() -> list[str]:
    return []


def _store(tmp_path: Path, name: str, ran: list[str]) -> Perdure:
    store = Perdure.open(f"sqlite:///{tmp_path}/{name}.db")

    @store.handler("release")
    def release(run: Any) -> Any:
        return run.options(approval_prompt="Deploy?").tool("deploy", lambda env: ran.append(env), **run.input)

    return store


@pytest.fixture
def path(tmp_path: Path, ran: list[str]) -> Path:
    with _store(tmp_path, "theirs", ran) as store:
        store.start("release", {"env": "staging"}, thread="job")
        store.recover()
        store.export("job", tmp_path / "job")
    return tmp_path / "job"


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_whose_keys_say_something_else_is_never_trusted(
    change: Change, tmp_path: Path, path: Path, ran: list[str]
) -> None:
    with _store(tmp_path, "ours", ran) as store:
        store.import_(forge.rewritten(path, change), user="alice")
        for dry_run in (True, False):
            with pytest.raises(EntryDamagedError, match="nobody can trust it"):
                store.trust("job", user="alice", by="olga", dry_run=dry_run)
        assert store.recover() == []
        assert store.thread("job", user="alice").info().quarantined is not None
    assert ran == []


def test_the_input_that_is_shown_is_the_one_that_the_run_gets(tmp_path: Path, path: Path, ran: list[str]) -> None:
    def given_anew(copy: ThreadCopy) -> ThreadCopy:
        run = _run(copy)
        body = encode_body(Resumed(run, 2, "x", anew=True, input=_packed({"env": "prod"})))
        return forge.grown(copy, forge.entry(EntryKind.RUN_RESUMED, body), key=input_key(run, 1))

    with _store(tmp_path, "ours", ran) as store:
        store.import_(forge.rewritten(path, given_anew), user="alice")
        assert store.trust("job", user="alice", by="olga", dry_run=True).runs[0].input == {"env": "prod"}


def test_what_the_runtime_wrote_is_trusted_after_decisions_and_ends(tmp_path: Path, ran: list[str]) -> None:
    with _store(tmp_path, "theirs", ran) as store:
        store.start("release", {"env": "staging"}, thread="job", key="one")
        store.recover()
        store.decide(store.pauses()[0], approved=True, by="ann", args={"env": "prod"})
        store.resume("job")
        store.start("release", {"env": "later"}, thread="job", key="two")
        store.recover()
        store.cancel("job")
        store.export("job", tmp_path / "job")
    with _store(tmp_path, "ours", ran) as store:
        store.import_(tmp_path / "job", user="alice")
        seen = store.trust("job", user="alice", by="olga")
        assert [each.args for each in seen.decisions] == [{"env": "prod"}]
        assert (seen.runs, seen.pauses) == ([], [])
    assert ran == ["prod"]
