"""Files that commands make are for their owner alone, and a command says when those of a store are not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.sync import Perdure
from tests.cli.forked import errors
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"
_SEVERAL = (("sqlite:///{}", "agents.db", 0o644), ("file:./{}", "agents", 0o755))


@pytest.fixture(autouse=True, params=[0o000, 0o022], ids=lambda mask: f"umask_{mask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two stores in the working folder."""
    for url in (f"sqlite:///{tmp_path}/agents.db", f"file://{tmp_path}/agents"):
        with Perdure.open(url) as store:
            store.thread("t").append("messages", "hi")
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes_below(folder: Path) -> set[int]:
    return {mode(path) for path in folder.rglob("*")}


def test_exports_copies_and_imports_are_for_their_owner_alone(folder: Path) -> None:
    for words in (
        ("export", STORE, "t", "t.perdure", "--user", ""),
        ("copy", STORE, "sqlite:///copied.db"),
        ("copy", STORE, "file:./copied"),
        ("import", "sqlite:///imported.db", "t.perdure", "--user", ""),
    ):
        assert errors(perdure(*words, folder=folder)) == []
    assert {mode(folder / name) for name in ("t.perdure", "copied.db", "imported.db")} == {0o600}
    assert modes_below(folder / "copied") == {0o600, 0o700}


def test_file_mode_says_otherwise(folder: Path) -> None:
    for words in (
        ("export", STORE, "t", "t.perdure", "--file-mode", "640"),
        ("copy", STORE, "sqlite:///copied.db", "--target-file-mode", "0660"),
        ("import", "file:./imported", "t.perdure", "--user", "", "--file-mode", "0o660"),
    ):
        done = perdure(*words, folder=folder)
        assert (done.returncode, errors(done)) == (0, [])
    assert [mode(folder / name) for name in ("t.perdure", "copied.db")] == [0o640, 0o660]
    assert modes_below(folder / "imported") == {0o660, 0o770}


@pytest.mark.parametrize("wrong", ["770", "60", "rw", "0x1b0"])
def test_a_mode_that_files_cannot_have_is_an_error_of_one_line(folder: Path, wrong: str) -> None:
    done = perdure("export", STORE, "t", "t.perdure", "--file-mode", wrong, folder=folder)
    assert done.returncode == 5
    assert done.stderr.startswith("error: file_mode must be")
    assert not (folder / "t.perdure").exists()


@pytest.mark.parametrize(("url", "name", "loose"), _SEVERAL, ids=["sqlite", "file"])
def test_a_command_says_when_others_may_read(folder: Path, url: str, name: str, loose: int) -> None:
    url = url.format(name)
    (folder / name / "threads" if (folder / name).is_dir() else folder / name).chmod(loose)
    for words in (
        ("export", url, "t", "t.perdure", "--user", ""),
        ("runs", url),
        ("timeline", url, "t"),
        ("verify", url),
        ("sizes", url),
        ("compact", url),
        ("copy", url, "memory://"),
    ):
        done = perdure(*words, folder=folder)
        assert done.returncode == 0, words
        (line,) = done.stderr.splitlines()
        assert line.startswith("warning: other accounts may read or change what is stored here"), words
        assert name in line, words
        assert f"{loose:04o}" in line, words


def test_the_demo_keeps_what_it_made_for_its_owner(tmp_path: Path) -> None:
    done = perdure("demo", "--fast", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert mode(tmp_path / "perdure-demo") == 0o700
    assert mode(tmp_path / "perdure-demo" / "ticket.db") == 0o600


def test_links_with_the_names_of_temporary_files_are_not_followed(folder: Path) -> None:
    victim = folder / "victim"
    victim.write_bytes(b"mine")
    for name in ("t.perdure.tmp", "t.perdure.part", ".perdure-0.part"):
        (folder / name).symlink_to(victim)
    assert perdure("export", STORE, "t", "t.perdure", folder=folder).returncode == 0
    assert victim.read_bytes() == b"mine"
    assert not (folder / "t.perdure").is_symlink()
