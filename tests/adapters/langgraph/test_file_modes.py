"""Databases that threads of graphs are kept in, or written to for LangGraph's savers, are for their owner alone."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from perdure.adapters.langgraph import PerdureSaver, export_to
from perdure.core.errors import StorageUnavailableError


@pytest.fixture(autouse=True, params=[0o000, 0o022, 0o077], ids=lambda mask: f"umask_{mask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def put(saver: PerdureSaver, thread: str) -> None:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/agents.db"
    with PerdureSaver.open(url) as saver:
        put(saver, "t")
    return url


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("file_mode", [0o600, 0o660])
def test_what_a_saver_keeps_and_what_it_exports(tmp_path: Path, file_mode: int) -> None:
    with PerdureSaver.open(f"sqlite:///{tmp_path}/agents.db", file_mode=file_mode) as saver:
        put(saver, "t")
        assert export_to(f"{tmp_path}/theirs.db", saver).new == 1
        assert {"agents.db", "agents.db-wal", "theirs.db"} <= set(modes(tmp_path))
        assert set(modes(tmp_path).values()) == {file_mode}
    with SqliteSaver.from_conn_string(f"{tmp_path}/theirs.db") as theirs:
        assert len(list(theirs.list({"configurable": {"thread_id": "t"}}))) == 1
        assert set(modes(tmp_path).values()) == {file_mode}  # with the files beside it


def test_a_database_of_theirs_that_is_there_keeps_its_mode_and_a_warning_tells(
    store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "theirs.db").touch()
    (tmp_path / "theirs.db").chmod(0o644)
    with caplog.at_level(logging.WARNING, "perdure"), PerdureSaver.open(store) as saver:
        assert export_to(f"{tmp_path}/theirs.db", saver).new == 1
    assert modes(tmp_path)["theirs.db"] == 0o644
    (line,) = [record.getMessage() for record in caplog.records if record.name == "perdure"]
    assert "theirs.db" in line
    assert "0644" in line


@pytest.mark.parametrize("content", [None, b""])
def test_a_link_is_not_followed(store: str, tmp_path: Path, content: bytes | None) -> None:
    elsewhere = tmp_path / "elsewhere"
    if content is not None:
        elsewhere.write_bytes(content)
    (tmp_path / "theirs.db").symlink_to(elsewhere)
    with PerdureSaver.open(store) as saver, pytest.raises(StorageUnavailableError, match="symbolic link"):
        export_to(f"{tmp_path}/theirs.db", saver)
    assert (elsewhere.read_bytes() if elsewhere.exists() else None) == content


def test_the_command_makes_it_for_its_owner_and_says_when_it_is_not(store: str, tmp_path: Path) -> None:
    def export(*options: str) -> subprocess.CompletedProcess[str]:
        words = ("export", "langgraph", "t", "--from", store, "--to", "theirs.db", *options)
        return subprocess.run(
            [sys.executable, "-m", "perdure.cli.main", *words], capture_output=True, text=True, cwd=tmp_path, check=True
        )

    assert export().stderr == ""
    assert modes(tmp_path)["theirs.db"] == 0o600
    (tmp_path / "theirs.db").chmod(0o644)
    done = export()
    assert done.stderr.startswith("warning: other accounts may read or change what is stored here")
    assert "'theirs.db' has mode 0644" in done.stderr
    (tmp_path / "theirs.db").unlink()
    export("--file-mode", "640")
    assert modes(tmp_path)["theirs.db"] == 0o640
