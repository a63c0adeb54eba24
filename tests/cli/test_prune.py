"""`perdure prune` and `perdure compact` as a person uses them: a real process for each call."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from perdure.cli.prune import rules
from perdure.core.retention_policy import Rule
from perdure.sync import Perdure
from tests.cli.forked import check_refused
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A SQLite store of two users with six routine points and a manual one each, and a fork."""
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        for user in ("alice", "bob"):
            thread = store.thread("ticket", user=user, agent="support")
            for turn in range(6):
                thread.append("messages", {"role": "user", "content": f"{turn} " + "word " * 200}, key=f"turn-{turn}")
                thread.save({**thread.load(), "turn": turn}, kind="routine")
            thread.save({**thread.load(), "done": True}, note="by hand")
        store.thread("ticket", user="alice").fork("@2", to="what-if").update(set={"turn": -1})
    return tmp_path


def states(folder: Path, user: str) -> dict[str, object]:
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        thread = store.thread("ticket", user=user)
        return {point.id: thread.load(point) for point in thread.history()}


def test_a_dry_run_says_what_would_go_and_changes_nothing(folder: Path) -> None:
    before = states(folder, "alice")
    done = perdure("prune", STORE, "--kind", "routine=last:3", "--dry-run", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    policy, headline, _, *lines = done.stdout.splitlines()
    assert policy == (
        "keeps              routine: newest 3 per agent and thread; other kinds: everything; messages: keep"
    )
    assert headline.startswith("5 of 15 points to drop, about ")
    assert sum(line.startswith("drop") for line in lines) == 5
    assert any(line.endswith("kept: forked from") for line in lines)
    assert states(folder, "alice") == before


def test_what_is_kept_loads_as_before_and_the_rest_is_gone(folder: Path) -> None:
    before = states(folder, "alice")
    done = perdure("prune", STORE, "--kind", "routine=last:3", "--yes", folder=folder)
    assert (done.returncode, done.stderr) == (0, f"next: perdure compact {STORE}\n")
    assert "pruned             5 points of 2 threads, " in done.stdout
    assert "kept               10 points" in done.stdout
    after = states(folder, "alice")
    assert len(after) == 5  # three routine ones, the manual one, and the one that was forked from
    assert after.items() <= before.items()
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        thread = store.thread("ticket", user="bob")
        assert [message["content"][0] for message in thread.messages()] == list("012345")
        first = {"role": "user", "content": "0 " + "word " * 200}
        assert thread.append("messages", first, key="turn-0") == 1  # the key outlives what it stands for
        assert store.verify(restore=True).ok
    assert (
        "pruned             0 points"
        in perdure("prune", STORE, "--kind", "routine=last:3", "--yes", folder=folder).stdout
    )


def test_one_user_can_be_pruned_alone(folder: Path) -> None:
    before = states(folder, "alice")
    done = perdure("prune", STORE, "--last", "1", "--user", "bob", "--yes", folder=folder)
    assert "pruned             6 points of 1 thread, " in done.stdout
    assert (len(states(folder, "bob")), states(folder, "alice")) == (1, before)
    assert (
        "pruned             0 points"
        in perdure("prune", STORE, "--last", "1", "--user", "", "--yes", folder=folder).stdout
    )


def test_points_go_by_age_and_by_size(folder: Path) -> None:
    done = perdure("prune", STORE, "--days", "1", "--yes", folder=folder)
    assert "pruned             0 points" in done.stdout
    done = perdure("prune", STORE, "--bytes", "3000", "--per", "store", "--dry-run", folder=folder)
    assert "bytes up to it, keeps 3,000" in done.stdout


def test_programs_get_json(folder: Path) -> None:
    dry = json.loads(perdure("prune", STORE, "--last", "2", "--dry-run", "-o", "json", folder=folder).stdout)
    assert (dry["dry_run"], dry["pruned"], len(dry["plan"]["dropped"])) == (True, [], 9)
    done = json.loads(perdure("prune", STORE, "--last", "2", "--yes", "-o", "json", folder=folder).stdout)
    assert (done["policy"], done["dry_run"]) == ("newest 2 per agent and thread; messages: keep", False)
    assert sorted((each["thread_id"], each["points"]) for each in done["pruned"]) == [("ticket", 4), ("ticket", 5)]
    assert done["bytes"] > 0
    told = json.loads(perdure("compact", STORE, "-o", "json", folder=folder).stdout)
    assert (told["waits"].split(" (")[0], told["bytes"] >= 0) == ("writers wait while the file is written anew", True)


def test_compact_says_first_who_waits_and_gives_disk_back(folder: Path) -> None:
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        thread = store.thread("long")
        for turn in range(200):
            thread.save({"turn": turn, "text": random.Random(turn).randbytes(3000).hex()})
    before = (folder / "agents.db").stat().st_size
    pruned = perdure("prune", STORE, "--last", "1", "--yes", folder=folder)
    assert pruned.stderr == f"next: perdure compact {STORE}\n"
    done = perdure("compact", STORE, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.startswith("meanwhile          writers wait while the file is written anew (VACUUM)")
    assert second.startswith("given back         ")
    assert (folder / "agents.db").stat().st_size < before / 2
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        assert store.thread("long").load()["turn"] == 199


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["prune", STORE], "error: there is nothing to prune by: give --last, --days, --bytes or --kind\n"),
        (["prune", STORE, "--kind", "manual=keep"], "error: there is nothing to prune by"),
        (["prune", STORE, "--last", "-1"], "error: last must be an int from 0 on, or None for no limit, not -1\n"),
        (["prune", STORE, "--days", "nan"], "error: days must be a number from 0 on"),
        (["prune", STORE, "--per", "user", "--days", "1"], "error: per='user' counts nothing"),
        (["prune", STORE, "--kind", "routine"], "error: --kind looks like routine=last:3, "),
        (
            ["prune", STORE, "--kind", "routine=last:x"],
            "error: --kind 'routine=last:x': last must be a number, not 'x'",
        ),
        (["prune", STORE, "--kind", "routine=most:3"], "'most:3' is no limit"),
        (["prune", STORE, "--kind", "routine=until:never"], "error: until must be 'completed' or 'cleared'"),
        (["prune", STORE, "--kind", "a=last:1", "--kind", "a=days:1"], "error: --kind a is given twice"),
        (["prune", STORE, "--last", "1", "--user-id-type", "int", "--user", "x"], "error: the user id is 'x', and "),
        (["prune", "sqlite:///typo.db", "--last", "1"], "there is no database yet"),
        (["compact", "sqlite:///typo.db"], "there is no database yet"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    done = perdure(*arguments, folder=folder)
    check_refused(done, said)
    assert not (folder / "typo.db").exists()


def test_a_limit_that_is_no_choice_is_wrong_usage(folder: Path) -> None:
    done = perdure("prune", STORE, "--last", "1", "--per", "planet", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")


def test_rules_of_kinds_are_read_from_text() -> None:
    found = rules(["routine=last:3,per:thread", "recovery=days:7,until:cleared", "a=b=bytes:10", "manual=keep"])
    assert found == {
        "routine": Rule(last=3, per="thread"), "recovery": Rule(days=7.0, until="cleared"), "a=b": Rule(bytes=10),
        "manual": Rule(),
    }  # fmt: skip


def test_a_folder_of_files_is_pruned_too(folder: Path) -> None:
    perdure("copy", STORE, "file:./place", folder=folder)
    done = perdure("prune", "file:./place", "--last", "1", "--yes", folder=folder)
    assert (done.returncode, done.stderr) == (0, "next: perdure compact file:./place\n")
    assert "only who uses that thread just then waits" in perdure("compact", "file:./place", folder=folder).stdout
    with Perdure.open(f"file:{folder}/place") as store:
        assert store.thread("ticket", user="bob").load()["done"] is True
        assert store.verify(restore=True).ok
    shutil.rmtree(folder / "place")
