"""`perdure usage` as a person uses it: a real process for each call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.sync import Perdure
from perdure.testing import ManualClock
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with two models, one of which tells a name that is no name."""
    told = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 2000}}
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", clock=ManualClock()) as store:
        for user, model in (("ann", "small"), ("bob", "evil\x1b[31m\n")):
            with store.thread("t", user=user).run() as run:
                run.model(lambda messages, model: told, ["hi"], model=model)
    return tmp_path


def test_a_table_for_people_and_numbers_for_programs(folder: Path) -> None:
    done = perdure("usage", STORE, "--by", "user", "--price", "small=0.15:0.6", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()[:4]] == [
        ["user", "calls", "input", "cached", "output", "retries", "seconds", "money"],
        ["ann", "1", "1,000,000", "0", "2,000", "0", "0.0", "0.15"],
        ["bob", "1", "1,000,000", "0", "2,000", "0", "0.0", "?"],
        ["total", "2", "2,000,000", "0", "4,000", "0", "0.0", "≥", "0.15"],
    ]
    assert done.stdout.splitlines()[4] == r"no price is known for 'evil\x1b[31m\n': give --price MODEL=INPUT:OUTPUT"
    (folder / "prices.json").write_text('{"small": {"input": 0.15, "output": 0.6}}')
    done = perdure("usage", STORE, "--prices", "prices.json", "--limit", "1", "-o", "json", folder=folder)
    read = json.loads(done.stdout)
    assert (len(read["rows"]), read["total"]["calls"], read["total"]["total_tokens"]) == (1, 2, 2_004_000)
    assert (read["total"]["money"], read["total"]["money_at_least"]) == (None, "0.1512")
    later = perdure("usage", STORE, "--since", "2026-01-02T00:00Z", folder=folder)
    assert later.stdout.splitlines()[1].split() == ["total", "0", "0", "0", "0", "0", "0.0", "0.00"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "modle"], "Did you mean"),
        (["--price", "small"], "error: --price looks like MODEL=INPUT:OUTPUT"),
        (["--price", "small=1:x"], "error: prices['small']['output'] must be a number from 0 on"),
        (["--prices", "none.json"], "error: --prices none.json: No such file or directory"),
        (["--prices", "agents.db"], "error: --prices agents.db is not JSON"),
        (["--since", "yesterday"], "error: --since must be a time such as 2026-11-01T00:00Z, not 'yesterday'"),
        (["--until", "2026-11-01T00:00"], "error: --until must say its time zone: write 2026-11-01T00:00:00Z for UTC"),
        (["--limit", "0"], "error: --limit must be 1 or more, not 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(folder: Path, arguments: list[str], said: str) -> None:
    done = perdure("usage", STORE, *arguments, folder=folder)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
