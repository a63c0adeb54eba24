"""What a store without a telemetry of its own tells, and to whom."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from perdure.app.parts import LogLines
from perdure.core.ports import Silence
from perdure.sync import Perdure

NOBODY = "redis://127.0.0.1:1"


class Heard(Silence):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append(f"{level}: {message}")


def test_a_line_goes_to_the_logger_of_the_package(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perdure"):
        LogLines().log("info", "the server is back", place="there", seconds=0.5)
        LogLines().log("error", "100% lost")
    told = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [
        ("perdure", "INFO", "the server is back place='there' seconds=0.5"),
        ("perdure", "ERROR", "100% lost"),
    ]


def test_a_redis_that_is_away_is_one_line_by_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", hot=NOBODY) as store:
        for turn in range(5):
            store.thread("t").append("turns", turn)
    assert [record.getMessage().partition(" error")[0] for record in caplog.records] == ["the hot layer is left alone"]


def test_a_telemetry_that_is_given_hears_it_instead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", hot=NOBODY, telemetry=heard) as store:
        store.thread("t").append("turns", 1)
    assert (heard.lines, caplog.records) == (["warning: the hot layer is left alone"], [])
