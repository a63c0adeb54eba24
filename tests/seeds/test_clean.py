"""Seed 000: what a run leaves behind is not committed by accident, and one command removes it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.docs.pages import ROOT


def test_make_clean_removes_what_runs_left_and_nothing_else(tmp_path: Path) -> None:
    """S0.34."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("checkpoints", "perdure-demo", "build", "src/__pycache__", "mine"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["Makefile", "mine", "src"]
    assert list((tmp_path / "src").iterdir()) == []


def test_the_default_folder_of_checkpoints_is_ignored_by_git() -> None:
    """S0.35."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert {"checkpoints/", "/checkpoints/", "checkpoints"} & set(lines)
