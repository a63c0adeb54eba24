"""`perdure memory …` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

from perdure import sync
from tests.cli.test_cli import perdure

URL = "sqlite:///a.db"


def test_a_session_at_the_terminal(tmp_path: Path) -> None:
    with sync.Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        sync.MemoryManager(store, user="bob").add_text("evil \x1b[2J text\nsecond line")
    added = perdure("memory", "add", URL, "alice", "I live in Oslo and I like tea", "--extract", folder=tmp_path)
    assert "User lives in Oslo" in added.stdout
    perdure("memory", "add", URL, "alice", "User lives in Bergen", "--kind", "fact", "--tag", "home", folder=tmp_path)
    listed = json.loads(perdure("memory", "list", URL, "alice", "-o", "json", folder=tmp_path).stdout)
    assert [each["text"] for each in listed] == ["User lives in Bergen", "User likes tea", "User lives in Oslo"]
    assert listed[0]["tags"] == ["home"]
    found = perdure("memory", "search", URL, "alice", "tea", folder=tmp_path)
    assert "User likes tea" in found.stdout
    assert "words: tea" in found.stdout
    assert "3 facts hold: 2 fact, 1 preference" in perdure("memory", "stats", URL, "alice", folder=tmp_path).stdout
    several = perdure("memory", "history", URL, "alice", "fact_", folder=tmp_path)
    assert (several.returncode, "several facts begin with 'fact_'" in several.stderr) == (5, True)
    assert "User likes tea" in perdure("memory", "history", URL, "alice", listed[1]["id"][:-1], folder=tmp_path).stdout
    assert perdure("memory", "forget", URL, "bob", listed[1]["id"], "--yes", folder=tmp_path).returncode == 3
    assert perdure("memory", "forget", URL, "alice", "--yes", folder=tmp_path).returncode == 2
    assert perdure("memory", "forget", URL, "alice", listed[1]["id"], "--yes", folder=tmp_path).returncode == 0
    assert "tea" not in perdure("memory", "list", URL, "alice", "--all", folder=tmp_path).stdout
    bob = perdure("memory", "list", URL, "bob", folder=tmp_path).stdout
    assert "\\x1b[2J text\\nsecond line" in bob
    assert len(bob.strip().split("\n")) == 1
    assert "deleted 2 facts" in perdure("memory", "forget", URL, "alice", "--all", "--yes", folder=tmp_path).stdout
    assert "nothing is remembered" in perdure("memory", "list", URL, "alice", folder=tmp_path).stdout
