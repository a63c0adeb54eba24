"""The guide about LangGraph runs, and prints what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_examples import examine


def test_the_examples_of_the_guide_run_and_print_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examine(ROOT / "docs" / "guides" / "langgraph.md", monkeypatch)
