"""A commit that others have seen and a crash of the server then undid: what was read of it is not believed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from perdure.sync import Perdure

UNDO = """
DELETE FROM perdure_entry WHERE version > 1;
DELETE FROM perdure_checkpoint WHERE version > 1;
UPDATE perdure_thread SET head = 1, head_state_version = 1, head_digest = (SELECT chain FROM perdure_entry);
"""


def test_a_state_that_was_undone_is_read_anew(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with Perdure.open(url) as early, Perdure.open(url) as late:
        early.thread("t").save({"n": 1})
        early.thread("t").save({"n": "undone"})
        with closing(sqlite3.connect(tmp_path / "agents.db")) as database, database:
            database.executescript(UNDO)
        late.thread("t").save({"n": 2})
        late.thread("t").save({"n": 3})
        assert early.thread("t").load() == {"n": 3}
        early.thread("t").update(set={"m": 4})
        assert late.thread("t").load() == {"n": 3, "m": 4}
