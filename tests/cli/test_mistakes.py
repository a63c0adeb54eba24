"""Fifty ways to call a command wrongly: the right exit code, a text that names the thing, the place and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.golden_store import Told, call, fill, placed

SECRET = "hunter2-S3cr3t"
DSN = f"postgresql://me:{SECRET}@127.0.0.1:1/db"
# The exit code, the command, and what the first line has to say. `{store}` is the address of the store.
MISTAKES = (
    (2, "frobnicate", "there is no command 'frobnicate'"),
    (2, "thread", "there is no command 'thread', did you mean 'threads'?"),
    (2, "resum ticket-42", "there is no command 'resum', did you mean 'resume'?"),
    (2, "threads --statsu idle", "Unknown option: --statsu"),
    (2, "threads extra", "extra"),
    (2, "threads --limit many", 'for --limit: unable to convert "many" into int'),
    (2, "threads -o xml", '"xml" for -o. Choose from: "table", "json"'),
    (2, "show", "THREAD"),
    (2, "fork ticket-42", "--to"),
    (2, "fork ticket-42 --to x --set city", "--set takes PATH=VALUE, such as context.city=Rome, not 'city'"),
    (2, "compare ticket-42", "B"),
    (2, "rewind ticket-42", "rewind to which point? give THREAD@REF"),
    (2, "rewind ticket-42@1", "nobody can be asked here: give --yes, or --dry-run"),
    (2, "delete", "delete which threads?"),
    (2, "delete ticket-42", "nobody can be asked here: give --yes, or --dry-run"),
    (2, "decide pau_abcd1234.x", "--approve or --deny, and --by NAME"),
    (2, "worker", "which handlers? name their module or file.py, or set worker.handlers"),
    (2, "rerun ticket-42", "which handlers?"),
    (2, "tag ticket-42 --remove", "remove which name?"),
    (2, "import x.perdure", "say whose the imported threads are"),
    (2, "trust", "name what to trust: the THREAD, or --file FILE"),
    (2, "key remove", "`key remove` takes the id of a key"),
    (2, "key forge", '"forge"'),
    (2, "completion tcsh", '"tcsh"'),
    (2, "export langgraph --to x.db", "name threads, or say --all"),
    (2, "threads --store {store} --config x.yaml", "name the store once: --store ADDRESS, or --config FILE"),
    (3, "show nobody", "thread 'nobody' does not exist"),
    (3, "show tikcet-42", "thread 'tikcet-42' does not exist; did you mean 'ticket-42'?"),
    (3, "why run_none", "run 'run_none' does not exist"),
    (3, "state ticket-42@99", "version 99 of thread 'ticket-42' does not exist; its versions are 1 to 5"),
    (3, "state ticket-42@tag:none", "tag"),
    (3, "state ticket-42@chk_none", "chk_none"),
    (3, "state ticket-42@yesterday", "'@yesterday' is not a ref; use @12 (a version)"),
    (3, "redo ticket-42", "a rewind of thread 'ticket-42' to redo does not exist"),
    (3, "tag ticket-42 none --remove", "none"),
    (3, "approve pau_nothing", "pause 'pau_nothing' does not exist; `perdure pauses` lists those that are open"),
    (3, "cancel ticket-42", "an unfinished run of thread 'ticket-42' does not exist"),
    (3, "export nobody x.perdure", "thread 'nobody' does not exist"),
    (3, "delete ticket --yes", "thread 'ticket' does not exist; 'ticket-42' begins with it"),
    (4, "fork ticket-42 --to ticket-42", "thread 'ticket-42' exists already; choose another id"),
    (4, "start support order-1", "thread 'order-1' has an unfinished run"),
    (5, "show order", "'order' is the beginning of 2 threads: order-"),
    (5, "state ticket-42 --path context.country", "path 'context.country' leads nowhere"),
    (5, "state ticket-42 12x", "'12x' is not a ref; use @12 (a version)"),
    (5, "start support new --input hi", "--input must be JSON, not 'hi'"),
    (5, "prune --last -1 --yes", "last must be an int from 0 on"),
    (5, "prune --yes", "there is nothing to prune by: give --last, --days, --bytes or --kind"),
    (5, "approve pau", "is too short for a pause: give at least 4 characters"),
    (5, "worker nothing.py", "--handlers nothing.py: there is no such file in "),
    (5, "threads --store sqlight:///x.db", "unknown scheme 'sqlight', did you mean 'sqlite'?"),
    (5, "threads --store redis://me:hunter2-S3cr3t@h/0", "redis is never the truth"),
    (5, "threads --file-mode 777", "file_mode must be"),
    (5, "top --every 0", "--every must be at least 0.2 seconds"),
    (7, "threads --store sqlite:///agent.db", "there is no database yet, did you mean 'agents.db'?"),
    (7, "threads --store file:./nowhere", "there is no folder yet"),
    (7, "threads --store sqlite:///agents.py", "agents.py"),
    (7, f"copy {DSN} file:./x", "127.0.0.1"),
)  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Told, Told]]:
    """What each mistake prints, for people and for programs; the two kinds of caller get the same store."""
    folder = tmp_path_factory.mktemp("mistakes")
    url = f"sqlite:///{folder}/agents.db"
    fill(url)
    with placed(folder, url):
        return {
            line: (call(*line.format(store=url).split()), call(*line.format(store=url).split(), "-o", "json"))
            for _, line, _ in MISTAKES
        }


@pytest.mark.parametrize(("code", "line", "said"), MISTAKES, ids=[line for _, line, _ in MISTAKES])
def test_a_mistake_is_named_with_its_exit_code(
    told: dict[str, tuple[Told, Told]], code: int, line: str, said: str
) -> None:
    done, _ = told[line]
    assert (done.code, done.out) == (code, "")
    first, *rest = [line for line in done.err.splitlines() if not line.startswith("warning: ")]
    assert first.startswith("error: ")
    assert said in first
    assert all(each.startswith("next: perdure ") for each in rest)
    assert "Traceback" not in done.err


def test_programs_get_the_same_as_a_problem_document(told: dict[str, tuple[Told, Told]]) -> None:
    """RFC 9457."""
    for code, line, _ in MISTAKES:
        done = told[line][1]
        if " -o " in line or line.startswith(("worker", "completion")):  # these have no answer for programs
            continue
        body = json.loads(done.err[done.err.index("{") :])  # a warning may come before it
        assert (done.code, done.out, body["exit_code"]) == (code, "", code), line
        assert body["type"].startswith("urn:perdure:error:")
        assert 400 <= body["status"] < 600
        assert body["title"]
        assert f"error: {body['detail']}"[:60] in told[line][0].err


def test_nothing_that_is_printed_holds_a_password(told: dict[str, tuple[Told, Told]]) -> None:
    for people, programs in told.values():
        assert SECRET not in people.out + people.err + programs.out + programs.err


def test_no_mistake_makes_or_changes_anything(told: dict[str, tuple[Told, Told]], tmp_path: Path) -> None:
    assert not list(tmp_path.iterdir())
