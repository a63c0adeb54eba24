"""Databases of LangGraph's own savers: brought here, gone on with, and brought back."""

from __future__ import annotations

import hashlib
import operator
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from perdure import sync
from perdure.adapters.langgraph import PerdureSaver, export_to, import_from
from perdure.adapters.langgraph.types import Opaque
from perdure.core.errors import NotAStorageError, NotFoundError, StorageUnavailableError
from perdure.storage.drive import drive
from tests.adapters.langgraph.hands import CONFIG, Hand
from tests.adapters.langgraph.savers import a_postgres, no_postgres
from tests.adapters.langgraph.scenes import SCENES
from tests.cli.test_cli import perdure

pytestmark = pytest.mark.filterwarnings("ignore:.*beta.*")
KINDS = ("sqlite", "postgres")
HERE = "tests.adapters.langgraph.test_importing"
KILLED = """
import os, signal, sys
from perdure.adapters.langgraph import PerdureSaver, import_from

def progress(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

import_from(sys.argv[1], PerdureSaver.open(sys.argv[2]), progress=progress)
"""


@dataclass
class Note:
    text: str


class State(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    note: Note


@pytest.fixture(params=KINDS)
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from _place(request.param, tmp_path, "theirs.db")


@pytest.fixture(params=KINDS)
def back(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from _place(request.param, tmp_path, "back.db")


def _place(kind: str, folder: Path, name: str) -> Iterator[str]:
    if kind == "sqlite":
        yield str(folder / name)
        return
    (url,) = a_postgres()
    yield url
    no_postgres(url)


@contextmanager
def their_saver(place: str) -> Iterator[Any]:
    cls: Any = PostgresSaver if place.startswith("postgresql") else SqliteSaver
    with cls.from_conn_string(place) as saver:
        saver.setup()
        yield saver


@pytest.fixture
def saver() -> Iterator[PerdureSaver]:
    with PerdureSaver.open("memory://") as saver:
        yield saver


def everything(saver: Any) -> dict[tuple[str, str, str], Any]:
    """All checkpoints, whole, by thread, namespace and id."""
    found = list(saver.list(None))
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return {tuple(str(each.config["configurable"][name]) for name in names): each for each in found}  # type: ignore


def packed(found: dict[tuple[str, str, str], Any]) -> dict[tuple[str, str, str], Any]:
    """The same as their serializer keeps it, which makes lists of tuples; versions are called otherwise there."""
    serde = JsonPlusSerializer()
    for each in found.values():
        each.checkpoint["channel_versions"] = sorted(each.checkpoint["channel_versions"])
        each.checkpoint["versions_seen"] = sorted(each.checkpoint["versions_seen"])
    return {key: serde.loads_typed(serde.dumps_typed(tuple(each))) for key, each in found.items()}


def talking(saver: Any) -> Any:
    """A graph that adds a message of 1.5 kB each time."""
    graph = StateGraph(State)
    graph.add_node(
        "agent", lambda state: {"messages": [{"role": "assistant", "content": words(len(state["messages"]))}]}
    )
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    return graph.compile(checkpointer=saver)


def words(seed: int) -> str:
    return " ".join(hashlib.sha256(f"{seed} {at}".encode()).hexdigest()[:11] for at in range(125))


def talk(saver: Any, turns: int, thread: str = "long") -> None:
    graph = talking(saver)
    for _ in range(turns):
        graph.invoke({"messages": []}, {"configurable": {"thread_id": thread}})


def noting(saver: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("agent", lambda state: {"messages": ["hi"], "note": Note("mine")})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("scene", SCENES)
def test_every_checkpoint_of_every_graph_is_equal(theirs: str, scene: str, saver: PerdureSaver) -> None:
    with their_saver(theirs) as source:
        drive(SCENES[scene].play(Hand(SCENES[scene].build(source), sync=True)))
        expected = everything(source)
        account = list(SCENES[scene].build(source).get_state_history(CONFIG))
    report = import_from(theirs, saver)
    assert (report.refused, report.new, report.checkpoints) == ((), len(expected), len(expected))
    assert everything(saver) == expected
    assert list(SCENES[scene].build(saver).get_state_history(CONFIG)) == account


@pytest.mark.parametrize("scene", ["an agent with tools", "subgraphs", "time travel", "interrupts in parallel"])
def test_what_is_written_back_is_equal_for_their_saver(back: str, scene: str, saver: PerdureSaver) -> None:
    drive(SCENES[scene].play(Hand(SCENES[scene].build(saver), sync=True)))
    expected = everything(saver)
    values = [each.values for each in SCENES[scene].build(saver).get_state_history(CONFIG)]
    report = export_to(back, saver)
    assert (report.refused, report.new) == ((), len(expected))
    with their_saver(back) as target:
        assert packed(everything(target)) == packed(expected)
        assert [each.values for each in SCENES[scene].build(target).get_state_history(CONFIG)] == values
        assert (
            SCENES[scene].build(target).get_state(CONFIG).values == SCENES[scene].build(saver).get_state(CONFIG).values
        )
    assert [each.outcome for each in export_to(back, saver).threads] == ["same"]


def test_a_database_that_was_brought_here_and_back_is_the_same(theirs: str, back: str, saver: PerdureSaver) -> None:
    with their_saver(theirs) as source:
        talk(source, 4)
        drive(SCENES["subgraphs"].play(Hand(SCENES["subgraphs"].build(source), sync=True)))
        expected = everything(source)
    import_from(theirs, saver)
    export_to(back, saver)
    with their_saver(back) as target:
        assert everything(target) == expected


def test_an_interrupted_run_goes_on_here(theirs: str, tmp_path: Path) -> None:
    scene = SCENES["interrupt and resume"]
    with their_saver(theirs) as source:
        scene.build(source).invoke({"log": ["go"]}, CONFIG)
        waiting = scene.build(source).get_state(CONFIG)
        assert waiting.interrupts
    with sync.Perdure.open(f"sqlite:///{tmp_path}/ours.db") as store:
        import_from(theirs, store)
        assert [each.thread for each in store.pauses()] == ["the thread"]
        graph = scene.build(PerdureSaver(store))
        assert graph.get_state(CONFIG) == waiting
        graph.invoke(Command(resume="yes"), CONFIG)
        assert graph.invoke(Command(resume="quite"), CONFIG)["log"] == ["go", "before", "first yes", "after"]
        assert store.pauses() == []
        assert store.verify().ok


def test_a_repeated_import_brings_only_what_is_new(theirs: str, saver: PerdureSaver) -> None:
    scene = SCENES["interrupt and resume"]
    with their_saver(theirs) as source:
        talk(source, 2)
        scene.build(source).invoke({"log": ["go"]}, CONFIG)
        assert [each.outcome for each in import_from(theirs, saver).threads] == ["copied", "copied"]
        assert [(each.outcome, each.new) for each in import_from(theirs, saver).threads] == [("same", 0)] * 2
        talk(source, 1)
        scene.build(source).invoke(Command(resume="yes"), CONFIG)  # asks once more: no checkpoint, but writes
        again = import_from(theirs, saver)
        assert [(each.outcome, each.new) for each in again.threads] == [("grew", 3), ("grew", 0)]
        assert everything(saver) == everything(source)
        scene.build(source).invoke(Command(resume="quite"), CONFIG)
        assert [each.outcome for each in import_from(theirs, saver).threads] == ["same", "grew"]
        assert everything(saver) == everything(source)


def test_a_thread_that_went_on_on_both_sides_is_refused_and_the_others_go_on(theirs: str, saver: PerdureSaver) -> None:
    with their_saver(theirs) as source:
        talk(source, 2, "a")
        import_from(theirs, saver)
        talk(saver, 1, "a")
        assert [each.outcome for each in import_from(theirs, saver).threads] == ["same"]
        here = everything(saver)
        talk(source, 1, "a")
        talk(source, 1, "b")
        refused, brought = import_from(theirs, saver).threads
    assert (refused.thread, refused.outcome, refused.new) == ("a", "refused", 0)
    assert "another history" in refused.reason
    assert (brought.thread, brought.outcome) == ("b", "copied")
    assert {key: each for key, each in everything(saver).items() if key[0] == "a"} == here


def test_a_thread_that_no_graph_made_is_left_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "theirs.db")
    with their_saver(place) as source:
        talk(source, 1)
    with sync.Perdure.open("memory://") as store:
        store.thread("long").save({"mine": True})
        (refused,) = import_from(place, store).threads
        assert (refused.outcome, store.thread("long").load()) == ("refused", {"mine": True})


def test_what_was_pruned_here_does_not_come_back(tmp_path: Path, saver: PerdureSaver) -> None:
    place = str(tmp_path / "theirs.db")
    with their_saver(place) as source:
        talk(source, 3)
        import_from(place, saver)
        saver.prune(["long"])
        assert [(each.outcome, each.new) for each in import_from(place, saver).threads] == [("same", 0)]
        talk(source, 1)
        assert import_from(place, saver).new == 3
        newest = saver.get_tuple({"configurable": {"thread_id": "long"}})
        assert newest == source.get_tuple({"configurable": {"thread_id": "long"}})


def test_a_checkpoint_that_is_older_than_the_newest_comes_late(tmp_path: Path, saver: PerdureSaver) -> None:
    place = str(tmp_path / "theirs.db")
    with their_saver(place) as source:
        talk(source, 3)
        expected = everything(source)
    with closing(sqlite3.connect(place)) as db, db:
        late = sorted(expected)[4][2]
        row = db.execute("SELECT * FROM checkpoints WHERE checkpoint_id = ?", (late,)).fetchone()
        db.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (late,))
        db.commit()
        import_from(place, saver)
        db.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    assert import_from(place, saver).new == 1
    assert everything(saver) == expected
    newest: Any = saver.get_tuple({"configurable": {"thread_id": "long"}})
    assert newest.config["configurable"]["checkpoint_id"] == max(expected)[2]


def test_a_class_that_nobody_allowed_is_named_with_its_place(theirs: str) -> None:
    code = f"""
import sys
from perdure.adapters.langgraph import PerdureSaver, import_from
saver = PerdureSaver.open("memory://")
(refused,) = import_from(sys.argv[1], saver).threads
print(refused.reason)
print({HERE!r} in sys.modules)
"""
    with their_saver(theirs) as source:
        noting(source).invoke({"messages": []}, {"configurable": {"thread_id": "t"}})
        newest = source.get_tuple({"configurable": {"thread_id": "t"}}).config["configurable"]["checkpoint_id"]
    done = subprocess.run([sys.executable, "-c", code, theirs], capture_output=True, text=True, check=True)
    reason, imported = done.stdout.splitlines()
    assert f"--types {HERE}:Note, or keep it as bytes with --opaque" in reason
    assert reason.startswith("thread 't', checkpoint ")
    assert ".note" in reason or "[1].note" in reason
    assert (imported, done.stderr) == ("False", "")
    assert newest


def test_a_class_that_is_allowed_is_built_and_one_that_is_not_is_kept_as_bytes(theirs: str, tmp_path: Path) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    with their_saver(theirs) as source:
        noting(source).invoke({"messages": []}, config)
    ours = f"sqlite:///{tmp_path}/typed.db"
    done = perdure("import", "langgraph", theirs, "--into", ours, "--types", f"{HERE}:Note", folder=Path.cwd())
    assert (done.returncode, done.stderr) == (0, "")
    with PerdureSaver.open(ours, types=[Note]) as saver:
        assert noting(saver).get_state(config).values == {"messages": ["hi"], "note": Note("mine")}
    ours = f"sqlite:///{tmp_path}/opaque.db"
    done = perdure("import", "langgraph", theirs, "--into", ours, "--opaque")
    assert (done.returncode, done.stderr) == (0, "")
    with PerdureSaver.open(ours) as saver:
        found: Any = saver.get_tuple(config)
        assert isinstance(found.checkpoint["channel_values"]["note"], Opaque)
        assert found.checkpoint["channel_values"]["messages"] == ["hi"]
    with PerdureSaver.open(ours, serde=JsonPlusSerializer(allowed_msgpack_modules=[(HERE, "Note")])) as saver:
        assert noting(saver).get_state(config).values["note"] == Note("mine")


def test_what_was_kept_as_bytes_goes_back_as_it_came(theirs: str, back: str) -> None:
    with their_saver(theirs) as source:
        noting(source).invoke({"messages": []}, {"configurable": {"thread_id": "t"}})
        expected = everything(source)
    code = """
import sys
from perdure.adapters.langgraph import PerdureSaver, export_to, import_from
saver = PerdureSaver.open("memory://")
import_from(sys.argv[1], saver, opaque=True)
assert not export_to(sys.argv[2], saver).refused
"""
    subprocess.run([sys.executable, "-c", code, theirs, back], check=True)
    with their_saver(back) as target:
        assert everything(target) == expected


def test_an_import_that_is_killed_is_completed_by_the_next(theirs: str, tmp_path: Path) -> None:
    with their_saver(theirs) as source:
        talk(source, 6)
        drive(SCENES["subgraphs"].play(Hand(SCENES["subgraphs"].build(source), sync=True)))
        expected = everything(source)
    ours = f"sqlite:///{tmp_path}/ours.db"
    for at in (1, 7, 8, len(expected) - 2):
        killed = subprocess.run([sys.executable, "-c", KILLED, theirs, ours, str(at)], check=False)
        assert killed.returncode == -signal.SIGKILL
    with PerdureSaver.open(ours) as saver:
        assert import_from(theirs, saver).refused == ()
        assert everything(saver) == expected
    with sync.Perdure.open(ours) as store:
        assert store.verify().ok


def test_an_import_that_is_killed_at_any_moment_is_completed_by_the_next(tmp_path: Path) -> None:
    place, ours = str(tmp_path / "theirs.db"), f"sqlite:///{tmp_path}/ours.db"
    with their_saver(place) as source:
        talk(source, 60)
        expected = everything(source)
    command = [sys.executable, "-m", "perdure.cli.main", "import", "langgraph", place, "--into", ours]
    for seconds in (1.5, 2.0, 2.5):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    assert perdure(*command[3:]).returncode == 0
    with PerdureSaver.open(ours) as saver:
        assert everything(saver) == expected


def test_a_long_thread_is_much_smaller_here_and_its_sizes_are_told(theirs: str, tmp_path: Path) -> None:
    with their_saver(theirs) as source:
        talk(source, 200)
        expected = source.get_tuple({"configurable": {"thread_id": "long"}})
    told: list[tuple[int, int]] = []
    with PerdureSaver.open(f"sqlite:///{tmp_path}/ours.db") as saver:
        report = import_from(theirs, saver, progress=lambda done, total: told.append((done, total)))
        assert saver.get_tuple({"configurable": {"thread_id": "long"}}) == expected
    assert told[:2] == [(1, 600), (2, 600)]
    assert told[-1] == (600, 600)
    assert report.source_bytes > 20 * report.target_bytes  # twice as many turns, twice as much


def test_the_source_is_not_changed(theirs: str, saver: PerdureSaver) -> None:
    with their_saver(theirs) as source:
        talk(source, 2)
    before = _bytes(theirs)
    import_from(theirs, saver)
    assert _bytes(theirs) == before


def _bytes(place: str) -> Any:
    if not place.startswith("postgresql"):
        return Path(place).read_bytes()
    with psycopg.connect(place) as db:
        query = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del), count(*) FROM pg_stat_user_tables"
        return db.execute(query).fetchone(), db.execute("SELECT pg_current_wal_insert_lsn() IS NULL").fetchone()


def test_a_role_that_may_only_read_is_enough(saver: PerdureSaver) -> None:
    (url,) = a_postgres()
    try:
        with their_saver(url) as source:
            talk(source, 1)
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("ALTER DATABASE " + url.rpartition("/")[2] + " SET default_transaction_read_only = on")
        assert import_from(url, saver).new == 3
    finally:
        no_postgres(url)


def test_a_place_without_checkpoints_is_named(tmp_path: Path, saver: PerdureSaver) -> None:
    with pytest.raises(NotFoundError, match=r"absent\.db"):
        import_from(str(tmp_path / "absent.db"), saver)
    (tmp_path / "text.db").write_text("no database, " * 100)
    with pytest.raises(NotAStorageError, match="not a database"):
        import_from(str(tmp_path / "text.db"), saver)
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE users (id)")
    with pytest.raises(NotAStorageError, match="no checkpoints of LangGraph"):
        import_from(str(tmp_path / "other.db"), saver)
    with pytest.raises(StorageUnavailableError):
        import_from("postgresql://nobody:secret@127.0.0.1:1/nowhere", saver)


def test_the_command_says_what_became_of_the_threads(tmp_path: Path) -> None:
    with their_saver(str(tmp_path / "theirs.db")) as source:
        talk(source, 2, "a")
        talk(source, 1, "b")
    run: Callable[..., Any] = lambda *words: perdure(*words, folder=tmp_path)  # noqa: E731
    done = run("import", "langgraph", "theirs.db", "--into", "sqlite:///ours.db", "--thread", "a")
    assert done.stdout.splitlines()[0] == "imported           1 thread, 6 new of 6 checkpoints"
    done = run("import", "langgraph", "theirs.db", "--into", "sqlite:///ours.db")
    assert done.stdout.splitlines()[:2] == [
        "imported           1 thread, 3 new of 3 checkpoints",
        "already there      1 thread, 0 new of 6 checkpoints",
    ]
    assert done.stdout.splitlines()[2].startswith("size               ")
    done = run("export", "langgraph", "a", "--from", "sqlite:///ours.db", "--to", "back.db")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "exported           1 thread, 6 new of 6 checkpoints")
    done = run("export", "langgraph", "--all", "--from", "sqlite:///ours.db", "--to", "back.db", "-o", "json")
    assert '"outcome": "same"' in done.stdout
    assert run("export", "langgraph", "--from", "sqlite:///ours.db", "--to", "back.db").returncode == 2
    done = run("import", "langgraph", "theirs.db", "--thread", "c", "--into", "sqlite:///ours.db")
    assert (done.returncode, done.stderr) == (3, "error: thread 'c' in theirs.db does not exist\n")
    assert "which store? give --store ADDRESS" in run("import", "langgraph", "theirs.db").stderr
    assert os.listdir(tmp_path)


def test_a_branch_that_is_exported_later_has_values_of_its_own(saver: PerdureSaver) -> None:
    config: Any = {"configurable": {"thread_id": "long"}}
    (url,) = a_postgres()
    try:
        talk(saver, 2)
        export_to(url, saver)
        old = list(talking(saver).get_state_history(config))[3].config
        talking(saver).invoke({"messages": [{"role": "user", "content": "otherwise"}]}, old)
        assert export_to(url, saver).refused == ()
        with their_saver(url) as target:
            assert packed(everything(target)) == packed(everything(saver))
            went_on = talking(target).invoke({"messages": []}, config)["messages"]
            assert went_on[:-1] == talking(saver).get_state(config).values["messages"]
    finally:
        no_postgres(url)
