"""Making the layout of MySQL and MariaDB, where each statement commits by itself."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

from perdure.core.errors import NotAStorageError
from perdure.core.identity import ThreadKey
from perdure.storage.drive import drive
from perdure.storage.mysql.store import MysqlStorage
from perdure.storage.sql.rows import scope_number
from perdure.storage.sql.schema import TABLES
from perdure.testing.clock import ManualClock
from perdure.testing.contract.lifetime import CURRENT
from perdure.testing.contract.messages import said
from perdure.testing.scribe import THREAD, Scribe
from perdure.testing.servers import require, shared_mariadb
from tests.storage.mysql import asked, connected, run_mysql
from tests.storage.test_mysql import _NUMBERS, url  # noqa: F401  # a fixture

# Sets up each place and dies at the text of that number: before it is sent, or as soon as it is on its way.
CHILD = """
import os, signal, sys
from perdure.storage.drive import drive
from perdure.storage.mysql import wires
from perdure.storage.mysql.store import MysqlStorage

when, ask, asked = sys.argv[1], wires.InPlaceWire.ask, []

def set_up(place, number):
    async def ask_or_die(self, text):
        asked.append(text)
        if len(asked) == number:
            if when == "sent":
                self._raw._execute_command(3, text)
            os.kill(os.getpid(), signal.SIGKILL)
        return await ask(self, text)

    wires.InPlaceWire.ask = ask_or_die
    drive(MysqlStorage(place, mode="sync").setup())
    print(len(asked))

if when == "never":
    set_up(sys.argv[2], 0)
else:
    for number, place in enumerate(sys.argv[2:], 1):
        child = os.fork()
        if child == 0:
            set_up(place, number)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(scope="module")
def fresh() -> list[Any]:
    """What a layout looks like that was made in one go."""
    server, name = require(shared_mariadb), f"fresh_{os.getpid()}_{next(_NUMBERS)}"
    place = server.database(name)
    texts = int(_child("never", place))
    assert texts > 10
    made = [texts, dump(place)]
    server.drop(name)
    return made


@pytest.mark.parametrize("when", ["before", "sent"])
def test_a_layout_whose_maker_was_killed_at_any_statement_is_finished_by_the_next(fresh: list[Any], when: str) -> None:
    server, texts = require(shared_mariadb), fresh[0]
    names = [f"killed_{os.getpid()}_{next(_NUMBERS)}" for _ in range(texts)]
    places = [server.database(name) for name in names]
    assert _child(when, *places).split() == [str(-signal.SIGKILL)] * texts
    for number, (name, place) in enumerate(zip(names, places, strict=True), 1):
        _sets_up_and_works(place)
        assert dump(place) == fresh[1], f"after a kill at text {number}"
        server.drop(name)


def _child(*words: str) -> str:
    return subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=True).stdout


def _sets_up_and_works(place: str) -> None:
    storage = MysqlStorage(place, mode="sync")
    assert drive(storage.setup()) == CURRENT
    scribe = Scribe(storage, ManualClock())
    drive(scribe.save())
    drive(storage.delete(THREAD))
    drive(storage.close())


def test_four_processes_may_set_up_at_once(url: str, fresh: list[Any]) -> None:
    command = [sys.executable, "-c", CHILD, "never", url]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate()[1] for process in processes]
    assert [(process.returncode, words) for process, words in zip(processes, said, strict=True)] == [(0, b"")] * 4
    assert dump(url) == fresh[1]


def test_the_script_for_people_makes_the_same_layout(url: str, fresh: list[Any]) -> None:
    storage = MysqlStorage(url, mode="sync")
    from perdure.storage.mysql.wires import Wire

    async def by_hand(wire: Wire) -> None:
        await wire.ask(b"SET SESSION sql_mode = DEFAULT")
        for statement in storage.migration():
            await wire.ask(statement.encode())

    drive(storage._port._lent(by_hand))
    assert drive(storage.setup("check")) == CURRENT
    drive(storage.close())
    assert dump(url) == fresh[1]


def test_tables_that_take_different_ids_for_the_same_are_refused(url: str) -> None:
    storage = MysqlStorage(url, mode="sync")
    drive(storage.setup())
    run_mysql(url, "ALTER TABLE perdure_meta COLLATE utf8mb4_general_ci")
    with pytest.raises(NotAStorageError, match="utf8mb4_general_ci"):
        drive(storage.setup())
    drive(storage.close())


def test_a_list_and_a_sweep_are_found_by_an_index(url: str) -> None:
    storage = MysqlStorage(url, mode="sync", server_time=False)
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    for number in range(300):
        drive(scribe.append(ThreadKey(str(number % 2), "u", f"t{number}")))
    for number in range(0, 300, 50):
        drive(storage.claim(ThreadKey("0", "u", f"t{number}"), "me", until=number, now=0))
    run_mysql(url, "ANALYZE TABLE perdure_thread")
    agents, named = storage._port.sql.dialect.among(" AND coalesce(agent, '')", ["", "bot"])
    for condition, values in (("", ()), (agents, named)):
        due = _plan(url, storage._port.sql.due(condition, condition), ("0", 99, *values, "0", 99, *values, 10))
        assert {each["key"] for each in due if each["table"] == "t"} == {"perdure_thread_lease", "perdure_thread_wake"}
        assert all(int(each["rows"]) <= 6 for each in due if each["table"] == "t")
    (listed,) = _plan(url, storage._port.sql.threads("everybody"), ("0", 1 << 60, "z", 10))
    assert (listed["key"], "filesort" in listed["Extra"]) == ("perdure_thread_updated", False)
    drive(storage.close())


def test_a_key_and_a_uid_are_found_by_an_index(url: str) -> None:
    storage = MysqlStorage(url, mode="sync", server_time=False)
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    for number in range(200):
        made = drive(scribe.append(ThreadKey("", "u", f"t{number % 9}"), idem_key=f"k{number}"))
    run_mysql(url, "ANALYZE TABLE perdure_thread, perdure_entry")
    by_key = storage._port.sql.KEYED.replace("name_key = ?", "name_key = UNHEX(?)")
    keyed = _plan(url, by_key, (made.row.key.digest(), "k199"))
    line = _plan(url, storage._port.sql.LINE, (made.row.uid,))
    assert [(each["key"], int(each["rows"])) for each in keyed] == [("name_key", 1), ("perdure_entry_key", 1)]
    assert [(each["key"], int(each["rows"])) for each in line] == [("uid", 1)]
    drive(storage.close())


def test_messages_are_found_by_an_index_and_not_sorted(url: str) -> None:
    storage = MysqlStorage(url, mode="sync", server_time=False)
    drive(storage.setup())
    scribe = Scribe(storage, ManualClock())
    for number in range(6):
        drive(said(scribe, *["a few words"] * 50, key=ThreadKey("", f"u{number % 2}", f"t{number}")))
    run_mysql(url, "ANALYZE TABLE perdure_message")
    sql = storage._port.sql.messages
    word = " AND LOCATE(CONVERT(? USING ascii), m.words) > 0"
    for conditions, values in (("", ()), (word, (" few ",))):
        (line, _) = _plan(url, sql.lines(conditions, order="DESC"), (1 << 32, 2 << 32, *values, 50))
        assert (line["key"], "filesort" in line["Extra"]) == ("PRIMARY", False)
        listed = sql.first_lines("one", conditions, searched=False)
        (line, *_) = _plan(url, listed, (scope_number("", "u1"), "", "u1", *values, 50))
        assert (line["key"], "filesort" in line["Extra"]) == ("perdure_message_scope", False)
    drive(storage.close())


def _plan(url: str, statement: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    from perdure.storage.mysql.literals import spelled

    text = spelled(statement, values).decode().replace('"row"', "`row`")
    names = ("id", "select_type", "table", "type", "possible_keys", "key", "key_len", "ref", "rows", "Extra")
    return [dict(zip(names, row, strict=True)) for row in run_mysql(url, f"EXPLAIN {text}")]


def dump(place: str) -> Any:
    """The tables as the server describes them, and what the storage says of itself."""
    with connected(place) as cursor:
        texts = [asked(cursor, f"SHOW CREATE TABLE perdure_{table}")[0][1] for table in TABLES]
        assert len(asked(cursor, "SHOW TABLES")) == len(TABLES)
        meta = asked(cursor, "SELECT name, value FROM perdure_meta ORDER BY name")
    return [re.sub(r" AUTO_INCREMENT=\d+", "", text) for text in texts], meta
