"""Columns of a SQLite database that hold something else: reading gives what was saved, or a typed error."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure import sync
from perdure.core.errors import StorageDamagedError
from tests.faults.flips import Truth, prepare, read_all
from tests.faults.places import is_typed, raised, url_of

_LAST_POINT = "row = (SELECT max(row) FROM perdure_checkpoint)"
_THIRD = "row & 4294967295 = 3"


CASES = {
    "meta name": "UPDATE perdure_meta SET name = 'rchema' WHERE name = 'schema'",  # KeyError: 'schema'
    "meta value": "UPDATE perdure_meta SET value = 'q' WHERE name = 'min_reader'",  # KeyError: 'min_reader'
    "entry kind": f"UPDATE perdure_entry SET kind = 'state.raved' WHERE {_THIRD}",  # KeyError: 'state.raved'
    "entry kind, another": f"UPDATE perdure_entry SET kind = 'run.started' WHERE {_THIRD}",  # another state
    "entry time": f"UPDATE perdure_entry SET at = at + 1 WHERE {_THIRD}",
    "entry time, a text": f"UPDATE perdure_entry SET at = 'soon' WHERE {_THIRD}",
    "entry actor": f"UPDATE perdure_entry SET actor = x'ff' WHERE {_THIRD}",
    "entry key": f"UPDATE perdure_entry SET idem_key = 'k' WHERE {_THIRD}",
    "entry chain": f"UPDATE perdure_entry SET chain = zeroblob(32) WHERE {_THIRD}",
    "entry digest": f"UPDATE perdure_entry SET payload_digest = zeroblob(32) WHERE {_THIRD}",
    "entry schema": f"UPDATE perdure_entry SET schema = -1 WHERE {_THIRD}",
    "entry payload, a text": f"UPDATE perdure_entry SET payload = 'text' WHERE {_THIRD}",
    "entry row": "UPDATE perdure_entry SET row = row + 1048576 WHERE row = (SELECT max(row) FROM perdure_entry)",
    "thread hash": "UPDATE perdure_thread SET name_key = zeroblob(32) WHERE id = 'flipped'",  # NotFoundError
    "thread head": "UPDATE perdure_thread SET head = 5 WHERE id = 'flipped'",
    "thread head, a text": "UPDATE perdure_thread SET head = 'x' WHERE id = 'flipped'",
    "thread head_state_version": "UPDATE perdure_thread SET head_state_version = 0 WHERE id = 'flipped'",
    "thread run_version": "UPDATE perdure_thread SET run_version = 3 WHERE id = 'flipped'",
    "thread run_version, a text": "UPDATE perdure_thread SET run_version = 'x' WHERE id = 'flipped'",
    "thread tags": "UPDATE perdure_thread SET tags = '[' WHERE id = 'flipped'",
    "thread created_at": "UPDATE perdure_thread SET created_at = 9223372036854775807 WHERE id = 'flipped'",
    "thread updated_at, a text": "UPDATE perdure_thread SET updated_at = 'x' WHERE id = 'flipped'",
    "thread parent": "UPDATE perdure_thread SET parent = 'nobody' WHERE id = 'branch'",
    "thread parent, itself": "UPDATE perdure_thread SET parent = uid WHERE id = 'branch'",  # reads for ever
    "thread parent_version": "UPDATE perdure_thread SET parent_version = 4 WHERE id = 'branch'",
    "thread row": "UPDATE perdure_thread SET row = 9 WHERE id = 'flipped'",
    "checkpoint version": f"UPDATE perdure_checkpoint SET version = version - 1 WHERE {_LAST_POINT}",  # another state
    "checkpoint id": f"UPDATE perdure_checkpoint SET id = 'chk_x' WHERE {_LAST_POINT}",  # NotFoundError
    "checkpoint row": f"UPDATE perdure_checkpoint SET row = row + 1048576 WHERE {_LAST_POINT}",
    "checkpoint metadata": f"UPDATE perdure_checkpoint SET metadata = x'c1' WHERE {_LAST_POINT}",  # ValueDamagedError
    "checkpoint time": f"UPDATE perdure_checkpoint SET at = 9223372036854775807 WHERE {_LAST_POINT}",  # OverflowError
    "snapshot digest": "UPDATE perdure_snapshot SET digest = zeroblob(32)",
    "snapshot chain": "UPDATE perdure_snapshot SET chain = zeroblob(32)",
    "snapshot payload": "UPDATE perdure_snapshot SET payload = 'text'",  # TypeError
    "snapshot row": "UPDATE perdure_snapshot SET row = row - 1",  # another state, from there on
    "blob payload": "UPDATE perdure_blob SET payload = zeroblob(10)",
    "blob payload, a text": "UPDATE perdure_blob SET payload = 'text'",
    "blob digest": "UPDATE perdure_blob SET digest = zeroblob(31) || x'01' WHERE row = 1",
    "blob scope": "UPDATE perdure_blob SET scope = x'00' WHERE row = 1",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Truth]:
    folder = tmp_path_factory.mktemp("template")
    truth = prepare("sqlite", folder, heavy=True)
    return (folder / "agents.db").read_bytes(), truth


@pytest.mark.timeout(10)  # one of these reads for ever
@pytest.mark.parametrize("case", CASES)
def test_a_damaged_column_gives_what_was_saved_or_a_typed_error(
    case: str, template: tuple[bytes, Truth], tmp_path: Path
) -> None:
    data, truth = template
    (tmp_path / "agents.db").write_bytes(data)
    with closing(sqlite3.connect(tmp_path / "agents.db")) as connection, connection:
        assert connection.execute(CASES[case]).rowcount > 0
    found = read_all(url_of("sqlite", tmp_path), truth)
    assert [words for kind, words in found if kind in ("state", "error")] == []


def test_a_damaged_layout_gives_a_typed_error(template: tuple[bytes, Truth], tmp_path: Path) -> None:
    spoiled = template[0].replace(b"ON perdure_thread (parent)", b"ON perdure_thr\xe5ad (parent)")
    (tmp_path / "agents.db").write_bytes(spoiled)
    store = sync.Perdure.open(url_of("sqlite", tmp_path))
    error = raised(lambda: store.thread("flipped").load())
    assert error is not None
    assert is_typed(error), repr(error)
    store.close()


def test_a_default_is_never_given_for_a_thread_that_is_damaged(template: tuple[bytes, Truth], tmp_path: Path) -> None:
    (tmp_path / "agents.db").write_bytes(template[0])
    with closing(sqlite3.connect(tmp_path / "agents.db")) as connection, connection:
        connection.execute(CASES["thread hash"])
    with sync.Perdure.open(url_of("sqlite", tmp_path)) as store, pytest.raises(StorageDamagedError):
        store.thread("flipped", user="ann").load(default={})


def _two_users(folder: Path, backend: str) -> None:
    """Two threads of the same id and the same length, each with snapshots."""
    with sync.Perdure.open(url_of(backend, folder)) as store:
        for user in ("ann", "bob"):
            for number in range(1, 6):
                store.thread("t", user=user).save({"owner": user, "n": number, "text": str(number) * 9000})


def _owners(folder: Path, backend: str) -> set[str]:
    """Whose states bob is shown, and the errors he gets."""
    seen: set[str] = set()
    with sync.Perdure.open(url_of(backend, folder)) as store:
        for ref in ("@1", "@2", "@3", "@4", "@5", None):
            got: list[dict[str, str]] = []
            error = raised(lambda ref=ref, got=got: got.append(store.thread("t", user="bob").load(ref)))
            seen.add(got[0]["owner"] if error is None else "typed" if is_typed(error) else repr(error))
    return seen


def test_a_snapshot_of_another_thread_is_never_believed(tmp_path: Path) -> None:
    _two_users(tmp_path, "sqlite")
    with closing(sqlite3.connect(tmp_path / "agents.db")) as connection, connection:
        connection.execute("DELETE FROM perdure_snapshot WHERE row >> 32 = 2")
        assert connection.execute("UPDATE perdure_snapshot SET row = row + (1 << 32)").rowcount > 0
    assert _owners(tmp_path, "sqlite") <= {"bob", "typed"}


def test_a_snapshot_file_of_another_thread_is_never_believed(tmp_path: Path) -> None:
    _two_users(tmp_path, "file")
    found = sorted(path for path in tmp_path.rglob("*") if path.parent.name == "snapshots")
    texts = {path: path.read_bytes() for path in found}
    assert len({path.parent for path in found}) == 2
    for path, text in texts.items():
        (other,) = (each for each in found if each.name == path.name and each != path)
        other.write_bytes(text)
    assert _owners(tmp_path, "file") <= {"bob", "typed"}


def test_a_snapshot_file_of_another_version_is_never_believed(tmp_path: Path) -> None:
    _two_users(tmp_path, "file")
    for path in [path for path in tmp_path.rglob("*") if path.parent.name == "snapshots"]:
        path.rename(path.with_name(path.name.replace("2", "3").replace("4", "5")))
    with sync.Perdure.open(url_of("file", tmp_path)) as store:
        found = [raised(lambda n=n: _expect(store, n)) for n in range(1, 6)]
    assert [error for error in found if error is not None and not is_typed(error)] == []


def _expect(store: sync.Perdure, number: int) -> None:
    assert store.thread("t", user="bob").load(f"@{number}")["n"] == number


def test_a_line_of_the_directory_that_cannot_be_read_is_named(template: tuple[bytes, Truth], tmp_path: Path) -> None:
    (tmp_path / "agents.db").write_bytes(template[0])
    with sync.Perdure.open(url_of("sqlite", tmp_path)) as store:
        assert store.damaged() == []
    with closing(sqlite3.connect(tmp_path / "agents.db")) as connection, connection:
        connection.execute(CASES["thread head, a text"])
    with sync.Perdure.open(url_of("sqlite", tmp_path)) as store:
        assert [(each.user, each.thread_id) for each in store.damaged()] == [("ann", "flipped")]
        assert not store.verify().ok
