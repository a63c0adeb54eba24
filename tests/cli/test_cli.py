"""The command line as a person uses it: a real process for each call.

Most are forked off one that has imported everything; `started` begins with nothing, as a person's do.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.cli.main import COMMANDS
from perdure.sync import Perdure
from tests.cli.forked import Forks

WITHOUT_THE_EXTRA = """
import sys
sys.modules["cyclopts"] = None
from perdure.cli.main import main
main(["version"])
"""


FORKS = Forks()


def perdure(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return FORKS.run(list(arguments), folder)


def started(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=60)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command(arguments: list[str]) -> None:
    done = perdure(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    for name, command in COMMANDS.items():
        assert f"  {name:<16}  {command.summary}" in done.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_with_the_same_first_line(name: str) -> None:
    done = started(name, "--help")  # with the imports of this command alone
    assert done.returncode == 0
    assert COMMANDS[name].summary in done.stdout


def test_help_does_not_import_what_it_does_not_need() -> None:
    code = "import sys; from perdure.cli.main import main; main(['--help']); print('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split("loaded ")[1].split()
    assert {"cyclopts", "rich", "perdure.cli.parser", "sqlite3"}.isdisjoint(loaded)


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_printed(arguments: list[str]) -> None:
    from perdure import __version__

    assert perdure(*arguments).stdout == f"{__version__}\n"


def test_an_unknown_command_is_one_line_with_exit_code_2() -> None:
    done = perdure("frobnicate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_bad_address_is_one_line_with_exit_code_5() -> None:
    done = perdure("schema", "sqlight:///x.db")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == (
        "error: storage address 'sqlight:///x.db': unknown scheme 'sqlight', did you mean 'sqlite'?; "
        "use memory://, file:./folder, sqlite:///name.db, postgresql://host/database or mysql://host/database\n"
    )


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: the command line needs an optional part: pip install 'perdure[cli]'\n"


def test_the_printed_schema_makes_a_storage_that_opens_without_migrating(tmp_path: Path) -> None:
    printed = perdure("schema", "sqlite:///agents.db", folder=tmp_path)
    assert printed.returncode == 0
    assert list(tmp_path.iterdir()) == []
    with sqlite3.connect(tmp_path / "agents.db") as database:
        database.executescript(printed.stdout)
    database.close()
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", migrate="check") as store:
        assert store.thread("t").append("messages", "hello") == 1


def test_a_reader_that_goes_away_is_no_error_with_a_traceback() -> None:
    command = f"{sys.executable} -m perdure.cli.main schema sqlite:///x.db | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""


ON_A_STORAGE = (
    ["verify"], ["repair"], ["sizes"], ["usage"], ["compact"], ["prune", "--last", "1"], ["timeline", "t"],
    ["compare", "t", "u"],
    ["export", "t", "x"], ["copy", "memory://"], ["runs"], ["why", "t"], ["pauses"], ["cancel", "t"],
    ["signal", "t", "go"], ["decide", "pau_x.y", "--deny", "--by", "ann"], ["resume", "t", "--handlers", "json"],
    ["worker", "json"], ["threads"], ["show", "t"], ["state", "t"], ["messages", "t"], ["history", "t"], ["tree", "t"],
    ["top"], ["fork", "t", "--to", "u"], ["rewind", "t@1"], ["redo", "t"], ["tag", "t"], ["delete", "t"],
    ["rerun", "t", "--handlers", "json"], ["start", "h", "t"], ["approve", "pau_x.y"], ["answer", "pau_x.y", "1"],
)  # fmt: skip


@pytest.mark.parametrize("command", ON_A_STORAGE, ids=lambda command: command[0])
def test_a_database_that_is_not_there_is_said_to_be_absent_with_what_was_meant(
    command: list[str], tmp_path: Path
) -> None:
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        store.thread("t").save({"n": 1})
    done = perdure(command[0], "sqlite:///agent.db", *command[1:], folder=tmp_path)
    assert (done.returncode, done.stdout) == (7, "")
    said = "there is no database yet, did you mean 'agents.db'?; check the address"
    assert f"error: {tmp_path}/agent.db: {said}" in done.stderr
    assert not (tmp_path / "agent.db").exists()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqlite:///new.db", "/new.db: there is no database yet; a program makes it when it first saves there; check"),
        ("sqlite:///no/x.db", "/no/x.db: there is no database yet: there is no folder {folder}/no; check the address"),
        ("sqlite:///{here}/there.db", "did you mean sqlite:////{here}/there.db? Four slashes begin a path from"),
        ("file:./nowhere", "/nowhere: there is no folder yet; a program makes it when it first saves there; check the"),
        ("sqlite:///empty.db", "/empty.db: nothing is set up yet; open it once with migrate="),
    ],
)
def test_what_is_wrong_with_an_address_is_said(address: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "there.db").touch()
    (tmp_path / "empty.db").touch(mode=0o600)
    names = {"here": str(tmp_path).lstrip("/"), "folder": str(tmp_path)}
    done = perdure("verify", address.format(**names), folder=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (7, 1)
    assert said.format(**names) in done.stderr
