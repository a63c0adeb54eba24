"""Every command, what it prints, for whom, and how it ends: the same on every storage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.cli.commands import COMMANDS, OF_TWO_WORDS
from perdure.cli.completion import candidates, options_of
from perdure.cli.parser import app
from perdure.cli.problems import STORE_VARIABLE
from perdure.testing.servers import require, shared_mariadb
from tests.cli.golden_store import (
    GOLDEN,
    LOOKS,
    STEPS,
    call,
    fill,
    help_pages,
    is_the_same_everywhere,
    placed,
    record,
    recorded,
)
from tests.contract.backends import postgres_url


@pytest.fixture(params=["sqlite", "file", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "mariadb":
        server, name = require(shared_mariadb), f"golden_{os.getpid()}"
        yield server.database(name)
        server.drop(name)
    elif request.param == "postgres":
        import psycopg

        yield require(postgres_url)
        with psycopg.connect(postgres_url(), autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    else:
        yield f"sqlite:///{tmp_path}/agents.db" if request.param == "sqlite" else f"file:{tmp_path}/agents"


def test_every_command_prints_what_was_recorded_on_every_storage(url: str, tmp_path: Path) -> None:
    """`python -m tests.cli.golden_store` records. Each command as a table, as JSON, and with its exit code."""
    fill(url)
    with placed(tmp_path, url):
        printed = record(tmp_path)
    pairs = zip(printed, recorded(), strict=True)
    same = [(mine, theirs) for mine, theirs in pairs if url.startswith("sqlite") or is_the_same_everywhere(theirs)]
    assert [mine for mine, _ in same] == [theirs for _, theirs in same]


def test_no_command_is_left_out_of_the_record() -> None:
    tried = [line.split() for line in (*LOOKS, *STEPS)]
    names = {" ".join(words[:size]) for words in tried for size in (1, 2)}
    assert set(COMMANDS | OF_TWO_WORDS) - names == set()


def test_the_help_of_every_command_is_what_was_recorded_and_has_two_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    helped = help_pages()
    assert helped == (GOLDEN / "help.txt").read_text(encoding="utf-8")
    assert all(helped.count(f"\n  {each}\n") >= 1 for command in COMMANDS.values() for each in command.examples)


@pytest.mark.parametrize("name", list(COMMANDS | OF_TWO_WORDS))
def test_every_example_is_accepted_by_the_parser(name: str) -> None:
    import shlex

    for example in (COMMANDS | OF_TWO_WORDS)[name].examples:
        words = shlex.split(example.partition(" > ")[0].removeprefix('eval "$(').removesuffix(')"'))
        assert words[0] == "perdure"
        words = [" ".join(words[1:3]), *words[3:]] if " " in name else words[1:]
        if words[0].startswith("--"):
            continue
        if name not in ("schema", "copy") and len(words) > 1 and words[1].startswith(("sqlite:", "file:")):
            words = [words[0], f"--store={words[1]}", *words[2:]]
        app().parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("name", list(COMMANDS | OF_TWO_WORDS))
def test_completion_knows_the_options_of_the_parser(name: str) -> None:
    known = {
        option
        for each in app()[name].assemble_argument_collection()
        for option in each.names
        if option.startswith("-") and option != "-o" and each.show
    }
    assert options_of(name) - {"--help", "-o"} == known


def test_completion_offers_commands_ids_pauses_and_refs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    fill(url)
    with placed(tmp_path, url):
        call("resume", "order-1", "--handlers", "agents.py")
        pause = call("pauses", "-o", "csv").out.splitlines()[1].split(",")[0]
        assert list(candidates(["thr"])) == ["threads"]
        assert list(candidates(["state", "order"])) == ["order-1", "order-3"]
        assert list(candidates(["state", "ticket-42@be"])) == ["ticket-42@before-error"]
        assert any(each.startswith("ticket-42@chk_") for each in candidates(["rewind", "ticket-42@"]))
        assert list(candidates(["approve", pause[:8]])) == [pause]
        assert list(candidates(["runs", "-o", "js"])) == ["json", "jsonl"]
        assert list(candidates(["fork", "x", "--s"])) == ["--schema", "--set", "--store"]
        assert call("__complete", "bash", "perdure show tick").out == "ticket-42\n"
        assert call("__complete", "bash", f"perdure show sqlite:///{tmp_path}/none.db t").out == ""


def test_completion_never_offers_what_a_shell_would_run_or_a_terminal_obey(tmp_path: Path) -> None:
    from perdure.sync import Perdure

    url = f"sqlite:///{tmp_path}/agents.db"
    with Perdure.open(url) as store:
        for name in ("x$(touch owned)", "x;ls", "x\x1b[2J", "x y"):
            store.thread(name).append("messages", "hi")
    with placed(tmp_path, url):
        offered = call("__complete", "bash", "perdure show x").out.splitlines()
    assert sorted(offered) == sorted(["'x$(touch owned)'", "'x y'", "'x;ls'"])


_IN_BASH = """\
source <(perdure completion bash)
tab() {
    COMP_LINE="$1" COMP_POINT=${#1}
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _perdure_complete
    echo "${COMPREPLY[@]}"
}
tab "perdure thr" perdure thr
tab "perdure state ticket-42@be" perdure state ticket-42 @ be
"""


def test_a_tab_in_bash_completes_commands_and_refs(tmp_path: Path) -> None:
    """Bash breaks words at @: what it is given goes in the place of the last piece."""
    url = f"sqlite:///{tmp_path}/agents.db"
    fill(url)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, STORE_VARIABLE: url}
    done = subprocess.run(["bash", "-c", _IN_BASH], capture_output=True, text=True, check=True, env=environment)
    assert (done.stdout, done.stderr) == ("threads\nbefore-error\n", "")
