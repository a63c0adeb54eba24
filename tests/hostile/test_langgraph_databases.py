"""Databases of LangGraph's savers that a stranger wrote: threads that cannot be read are skipped and named, the others
arrive, nothing of the database is run or imported, and time and memory stay within bounds."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("langgraph.checkpoint.sqlite")

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from perdure import sync
from perdure.adapters.langgraph import PerdureSaver, import_from
from perdure.core.errors import InvalidInputError, NotAStorageError, StorageDamagedError, StorageUnavailableError
from tests.adapters.langgraph.savers import a_postgres, no_postgres
from tests.adapters.langgraph.test_importing import talk
from tests.cli.test_cli import perdure

MEMORY, SECONDS = 512 << 20, 60
CHILD = """
import json, os, pathlib, re, sys, time, traceback
sys.path.insert(0, sys.argv[1])  # a module stands here that must never be imported
os.environ["PERDURE_HIDDEN"] = "hunter2"
from perdure.adapters.langgraph import PerdureSaver, import_from
from perdure.core.errors import PerdureError
for line in sys.stdin:
    place, opaque = json.loads(line)
    began, found = time.monotonic(), {}
    with PerdureSaver.open("memory://") as saver:
        try:
            report = import_from(place, saver, opaque=opaque, max_seconds=20)
            found["threads"] = {each.thread: [each.outcome, each.reason] for each in report.threads}
        except PerdureError as error:
            found["error"] = [type(error).__name__, str(error)]
        except BaseException as error:
            found["untyped"] = traceback.format_exc()[-1500:]
        configs = [{"configurable": {"thread_id": each}} for each in found.get("threads", ())]
        found["told"] = "hunter2" in repr([*map(saver.get_tuple, configs)])
    found["seconds"] = time.monotonic() - began
    # Of this program: what getrusage tells includes what its parent was when it was started.
    found["memory"] = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) << 10
    found["imported"] = "hostile_module" in sys.modules
    print(json.dumps(found), flush=True)
"""
Break = Callable[[sqlite3.Connection], object]  # a command in it would make the file MARKER
pack = msgspec.msgpack.encode


def ext(code: int, *parts: Any) -> bytes:
    return pack(msgspec.msgpack.Ext(code, pack(parts)))


def nested(depth: int, code: int = 0) -> bytes:
    """Objects within objects: each has the bytes of all that it holds."""
    data = b"\xc0"
    for _ in range(depth):
        data = data if code == 7 else b"\x93\xa1m\xa1n" + data
        data = b"\xc9" + len(data).to_bytes(4, "big") + bytes([code]) + data
    return data


def columns(**values: Any) -> Break:
    """Other values in the row of the newest checkpoint."""

    def apply(db: sqlite3.Connection) -> None:
        for name, value in values.items():
            db.execute(f"UPDATE checkpoints SET {name} = ? WHERE {NEWEST}", (value,))

    return apply


def in_json(text: str | bytes) -> Break:
    return columns(type="json", checkpoint=text if isinstance(text, bytes) else text.encode())


def value(data: bytes) -> Break:
    """Another value of a channel in the newest checkpoint."""

    def apply(db: sqlite3.Connection) -> None:
        changed(db, channel_values={"messages": msgspec.Raw(data)})

    return apply


def json_value(text: str) -> Break:
    """The same in a checkpoint that is kept as JSON."""

    def apply(db: sqlite3.Connection) -> None:
        parts = msgspec.msgpack.decode(newest(db)) | {"channel_values": {"messages": msgspec.Raw(text.encode())}}
        in_json(msgspec.json.encode(parts))(db)

    return apply


def rest(**parts: Any) -> Break:
    return lambda db: changed(db, **parts)


def changed(db: sqlite3.Connection, **parts: Any) -> None:
    data = pack(msgspec.msgpack.decode(newest(db)) | parts)
    db.execute(f"UPDATE checkpoints SET checkpoint = ? WHERE {NEWEST}", (data,))


def newest(db: sqlite3.Connection) -> bytes:
    return db.execute(f"SELECT checkpoint FROM checkpoints WHERE {NEWEST}").fetchone()[0]


def without(name: str) -> Break:
    def apply(db: sqlite3.Connection) -> None:
        parts = msgspec.msgpack.decode(newest(db))
        del parts[name]
        db.execute(f"UPDATE checkpoints SET checkpoint = ? WHERE {NEWEST}", (pack(parts),))

    return apply


def write(**values: Any) -> Break:
    """Something that a task wrote for the newest checkpoint."""

    def apply(db: sqlite3.Connection) -> None:
        row = {"task_id": "t", "idx": 0, "channel": "c", "type": "msgpack", "value": b"\x01", "task_path": ""} | values
        row = dict(zip(("thread_id", "checkpoint_ns", "checkpoint_id"), point(db), strict=True)) | row
        names = ", ".join(row)
        db.execute(f"INSERT INTO writes ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))

    return apply


def point(db: sqlite3.Connection) -> tuple[Any, ...]:
    return db.execute(f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE {NEWEST}").fetchone()


def many_writes(db: sqlite3.Connection) -> None:
    rows = ((*point(db), f"t{at}", 0, "c", "msgpack", b"\x01", "") for at in range(200_000))
    names = "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value, task_path"
    db.executemany(f"INSERT INTO writes ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def statements(*lines: str) -> Break:
    return lambda db: [db.execute(line) for line in lines]


def forged(table: str, sql: str) -> Break:
    """A definition as no statement could make it."""

    def apply(db: sqlite3.Connection) -> None:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, table))
        db.execute("PRAGMA writable_schema = OFF")

    return apply


def running(command: str, module: str = "os", name: str = "system") -> str:
    id = json.dumps([*module.split("."), name])
    return f'{{"lc": 2, "type": "constructor", "id": {id}, "args": ["{command}"], "kwargs": null}}'


NEWEST = "thread_id = 'evil' AND checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'evil')"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
_COLUMNS = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
_ROW = "'' AS checkpoint_ns, '1' AS checkpoint_id, NULL AS parent_checkpoint_id, 'json' AS type, x'7b7d' AS checkpoint"
VIEW = f"CREATE VIEW checkpoints AS {ENDLESS} SELECT 't' || i AS thread_id, {_ROW}, '{{}}' AS metadata FROM n"
DROP = "ALTER TABLE checkpoints RENAME TO moved"
DIGITS = "9" * 5000
# Each breaks thread "evil", and says how the reason reads.
THREADS: dict[str, tuple[Break, str]] = {
    "no checkpoint": (columns(checkpoint=None), "checkpoint is NoneType, not bytes"),
    "an empty checkpoint": (columns(checkpoint=b""), "channel_versions: is no mapping"),
    "a text for a checkpoint": (columns(checkpoint="{}"), "checkpoint is str, not bytes"),
    "a number for a checkpoint": (columns(checkpoint=5), "checkpoint is int, not bytes"),
    "a float for a checkpoint": (columns(checkpoint=0.5), "checkpoint is float, not bytes"),
    "null": (columns(checkpoint=b"\xc0"), "Expected `object`"),
    "a list": (columns(checkpoint=b"\x91\x01"), "Expected `object`"),
    "numbers for names": (columns(checkpoint=b"\x81\x01\x01"), "Expected `str`"),
    "cut off": (lambda db: columns(checkpoint=newest(db)[:-5])(db), "truncated"),
    "bytes after the end": (lambda db: columns(checkpoint=newest(db) + b"\x01")(db), "trailing"),
    "random bytes": (columns(checkpoint=bytes(range(0xC1, 0x100))), "evil"),
    "a pickle": (columns(type="pickle", checkpoint=b"cos\nsystem\n(S'touch MARKER'\ntR."), "kept as 'pickle'"),
    "an unknown kind": (columns(type="exec", checkpoint=b"print(1)"), "kept as 'exec'"),
    "a kind of a megabyte": (columns(type="x" * 1_000_000), "kept as 'x"),
    "a kind that is no text": (columns(type=b"json"), "type is bytes"),
    "no JSON": (in_json("{"), "Expecting property name"),
    "a JSON list": (in_json("[]"), "no attribute"),
    "null in JSON": (in_json("null"), "no attribute"),
    "JSON that is no text": (in_json(b"\xff\xfe{}"), "evil"),
    "JSON 100,000 deep": (in_json('{"channel_versions": {}, "a": ' + "[" * 100_000 + "]" * 100_000 + "}"), "recursion"),
    "JSON numbers of 5,000 digits": (in_json(f'{{"channel_versions": {{}}, "a": {DIGITS}}}'), "digits"),
    "a JSON value of 5,000 digits": (json_value(DIGITS), "digits"),
    "a JSON value 100,000 deep": (json_value("[" * 100_000 + "]" * 100_000), "recursion"),
    "millions of JSON values": (json_value("[" + "[]," * 10_000_000 + "0]"), "more than 2,000,000 parts"),
    "a class in JSON": (json_value(running("touch MARKER")), "os:system is not built"),
    "a class hidden in JSON": (
        json_value(running("touch MARKER").replace("constructor", "\\u0063onstructor").replace('"lc"', '"\\u006cc"')),
        "os:system is not built",
    ),
    "a module in JSON": (json_value(running("1", "hostile_module", "Cls")), "hostile_module:Cls is not built"),
    "an old class in JSON": (json_value(running("1", "hostile_module", "X").replace("2", "1", 1)), "is not built"),
    "an id that is none": (json_value('{"lc": 2, "type": "constructor", "id": 5}'), "cannot be read"),
    "an empty id": (json_value('{"lc": 2, "type": "constructor", "id": []}'), "cannot be read"),
    "a secret": (json_value('{"lc": 1, "type": "secret", "id": ["PERDURE_HIDDEN"]}'), "'secret' of LangChain's"),
    "what LangChain cannot": (json_value('{"lc": 1, "type": "not_implemented", "id": ["x"]}'), "not_implemented"),
    "a call": (value(ext(0, "os", "system", "touch MARKER")), "os:system is not built"),
    "a call with arguments": (value(ext(1, "subprocess", "call", (["touch", "MARKER"],))), "subprocess:call is not"),
    "a call with names": (value(ext(2, "subprocess", "call", {"args": ["touch", "MARKER"]})), "subprocess:call is not"),
    "a method": (value(ext(3, "os", "environ", "touch MARKER", "get")), "os:environ is not built"),
    "a method of a class that is fine": (value(ext(3, "datetime", "datetime", "x", "mro")), "is not built"),
    "a module": (value(ext(5, "hostile_module", "Cls", {}, "model_validate_json")), "hostile_module:Cls is not"),
    "an old module": (value(ext(4, "hostile_module", "Cls", {})), "hostile_module:Cls is not built"),
    "a builtin": (value(ext(0, "builtins", "eval", "__import__('hostile_module')")), "builtins:eval is not built"),
    "an unknown extension": (value(ext(99, "x")), "an extension of kind 99"),
    "a negative extension": (value(pack(msgspec.msgpack.Ext(-7, b"x"))), "an extension of kind -7"),
    "an extension that is none": (value(pack(msgspec.msgpack.Ext(0, b"\xc1\xc1"))), "an object without a class"),
    "an extension of a number": (value(pack(msgspec.msgpack.Ext(0, b"\x05"))), "an object without a class"),
    "an extension longer than it says": (value(b"\x91\xc7\x04\x00\x93\xa9abc\xc0"), "thread 'evil'"),
    "an extension that is cut off": (value(b"\xc9\xff\xff\xff\xff\x00"), "evil"),
    "an array": (value(ext(6, "O", [1 << 40], "C", b"")), ""),
    "objects 10,000 deep": (value(nested(10_000)), "nested more than 32 deep"),
    "objects of a megabyte 1,000 deep": (value(nested(1_000, 7)[:-1] + b"\xc0"), "nested more than 32 deep"),
    "objects of 30 MB, 100 deep": (value(pack([b"x" * (30 << 20), msgspec.Raw(nested(100))])), "nested more than 32"),
    "lists 100,000 deep": (value(b"\x91" * 100_000 + b"\xc0"), "ecursion"),
    "lists 1,000 deep": (value(b"\x91" * 1_000 + b"\xc0"), "ecursion"),
    "mappings 50,000 deep": (value(b"\x81\xa1a" * 50_000 + b"\xc0"), "ecursion"),
    "30 million nothings": (value(b"\xdd" + (30_000_000).to_bytes(4, "big") + b"\xc0" * 30_000_000), "2,000,000 parts"),
    "20 million empty mappings": (
        value(b"\xdd" + (20_000_000).to_bytes(4, "big") + b"\x80" * 20_000_000), "2,000,000 parts"
    ),
    "more items than bytes": (value(b"\xdd\xff\xff\xff\xff\x01"), "evil"),
    "60,000 equal hashes": (
        value(ext(0, "builtins", "set", [
            msgspec.msgpack.Ext(0, pack(("uuid", "UUID", f"{at * (2**61 - 1):032x}"))) for at in range(60_000)
        ])),
        "a set of more than 5,000 objects",
    ),
    "no versions": (without("channel_versions"), "channel_versions: is no mapping"),
    "versions in a list": (rest(channel_versions=[1, 2]), "channel_versions: is no mapping"),
    "versions as text": (rest(channel_versions="x"), "channel_versions: is no mapping"),
    "versions that are mappings": (rest(channel_versions={"a": {}}), "version of each channel"),
    "versions by number": (rest(channel_versions={1: 1}), "version of each channel"),
    "values in a list": (rest(channel_values=[1]), "Expected `object`"),
    "values as text": (rest(channel_values="x"), "Expected `object`"),
    "a channel called as ours": (rest(channel_values={"__langgraph__": 1}), "cannot be called"),
    "metadata in a list": (columns(metadata="[1]"), "metadata is list, not a mapping"),
    "metadata as text": (columns(metadata='"x"'), "metadata is str, not a mapping"),
    "null metadata": (columns(metadata="null"), "metadata is NoneType, not a mapping"),
    "metadata that are no JSON": (columns(metadata="{"), "metadata is no JSON"),
    "metadata that are no text": (columns(metadata=b"\xff\xff"), "metadata is no JSON"),
    "metadata that are a number": (columns(metadata=5), "metadata is"),
    "metadata 100,000 deep": (columns(metadata='{"a":' * 100_000 + "1" + "}" * 100_000), "metadata is no JSON"),
    "metadata with 5,000 digits": (columns(metadata=f'{{"a": {DIGITS}}}'), "metadata is no JSON"),
    "a parent that is no text": (columns(parent_checkpoint_id=b"x"), "parent_checkpoint_id is bytes"),
    "an id that is no text": (columns(checkpoint_id=b"\xff\x00"), "checkpoint_id is bytes"),
    "an empty checkpoint id": (columns(checkpoint_id=""), "checkpoint_id has 0 characters"),
    "an id of a megabyte": (columns(checkpoint_id="x" * 1_000_000), "checkpoint_id has 1,000,000 characters"),
    "an id that is no UTF-8": (
        statements(f"UPDATE checkpoints SET checkpoint_id = CAST(x'ffff' AS TEXT) WHERE {NEWEST}"), "UTF-8"
    ),
    "a blob of 100 MB": (
        statements(f"UPDATE checkpoints SET checkpoint = zeroblob(100000000) WHERE {NEWEST}"), "larger than"
    ),
    "metadata of 100 MB": (
        statements(f"UPDATE checkpoints SET metadata = zeroblob(100000000) WHERE {NEWEST}"), "larger than"
    ),
    "an index that is text": (write(idx="first"), "idx is str, not int"),
    "an index that is a float": (write(idx=0.5), "idx is float, not int"),
    "a channel that is no text": (write(channel=b"c"), "channel is bytes, not str"),
    "a task that is no text": (write(task_id=b"t"), "task_id is bytes, not str"),
    "a path that is a blob": (write(task_path=b"p"), "task_path is bytes, not str"),
    "a written text": (write(value="x"), "value is str, not bytes"),
    "a written pickle": (write(type="pickle", value=b"cos\nsystem\n(S'touch MARKER'\ntR."), "kept as 'pickle'"),
    "a written call": (write(value=ext(0, "os", "system", "touch MARKER")), "os:system is not built"),
    "something written that is cut off": (write(value=b"\x92\x01"), "cannot be read"),
    "a written JSON number": (write(type="json", value=DIGITS.encode()), "digits"),
    "200,000 writes": (many_writes, "larger than"),
    "writes of 100 MB": (
        lambda db: [write(task_id=f"t{at}", value=pack(b"x" * 10_000_000))(db) for at in range(10)],
        "larger than",
    ),
}  # fmt: skip
# These cannot be read at all.
FILES: dict[str, tuple[Break, str]] = {
    "an endless view": (statements(DROP, VIEW), "NotAStorageError"),
    "a view": (statements(DROP, "CREATE VIEW checkpoints AS SELECT * FROM moved"), "NotAStorageError"),
    "an endless view of writes": (
        statements("ALTER TABLE writes RENAME TO moved", f"CREATE VIEW writes AS {ENDLESS} SELECT i AS idx FROM n"),
        "NotAStorageError",
    ),
    "a view that says it is a table": (forged("checkpoints", VIEW), "StorageDamagedError"),
    "a virtual table": (
        statements(DROP, f"CREATE VIRTUAL TABLE checkpoints USING fts5({_COLUMNS})"), "NotAStorageError"
    ),
    "a view that loads a library": (
        statements(DROP, f"CREATE VIEW checkpoints AS SELECT load_extension('MARKER') AS thread_id, {_COLUMNS[11:]} "
                   "FROM moved"),
        "NotAStorageError",
    ),
    "a view that makes a gigabyte": (
        statements(DROP, "CREATE VIEW checkpoints AS SELECT thread_id, checkpoint_ns, checkpoint_id, "
                   "parent_checkpoint_id, type, zeroblob(1000000000) AS checkpoint, metadata FROM moved"),
        "NotAStorageError",
    ),
    "a column that is computed": (
        statements(DROP, "CREATE TABLE checkpoints (thread_id, checkpoint_ns GENERATED ALWAYS AS (replace(hex("
                   "zeroblob(100000000)), '00', 'xx')), checkpoint_id, parent_checkpoint_id, type, checkpoint, "
                   "metadata)"),
        "NotAStorageError",
    ),
    "a definition that is none": (forged("checkpoints", "CREATE TABLE checkpoints ("), "StorageDamagedError"),
    "a definition of something else": (forged("checkpoints", "CREATE INDEX x ON writes (idx)"), "StorageDamagedError"),
    "no table": (statements("DROP TABLE checkpoints"), "NotAStorageError"),
    "an empty table": (statements(DROP, "CREATE TABLE checkpoints (x)"), "NotAStorageError"),
}  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with three threads, of which "evil" is to be broken."""
    path = tmp_path_factory.mktemp("template") / "theirs.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for name in ("a", "evil", "z"):
            talk(saver, 1, name)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return path


def broken(template: Path, folder: Path, name: str, apply: Break) -> str:
    path = folder / f"{name.replace(' ', '-')}.db"
    shutil.copy(template, path)
    with closing(sqlite3.connect(path)) as db, db:
        apply(db)
    return str(path)


class Importer:
    """Imports in a process of its own, one after the other: the most memory is that of the worst so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "hostile_module.py").write_text("class Cls: ...\nX = Cls\n")
        command = [sys.executable, "-c", CHILD, str(folder)]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
        )

    def bring(self, place: str, *, opaque: bool = False) -> dict[str, Any]:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.write(json.dumps([place, opaque]) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        assert line, self._child.communicate()[1][-2000:]
        return json.loads(line) | {"marked": (self._folder / "MARKER").exists()}


@pytest.fixture(scope="module")
def importer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Importer]:
    importer = Importer(tmp_path_factory.mktemp("importer"))
    yield importer
    importer._child.communicate()


def faults(found: dict[str, Any]) -> Iterator[str]:
    """What must not happen, whatever the database is."""
    if "untyped" in found:
        yield found["untyped"]
    if found["seconds"] > SECONDS or found["memory"] > MEMORY:
        yield f"{found['seconds']:.0f} s, {found['memory'] >> 20} MB"
    if found["imported"] or found["told"] or found["marked"]:
        yield "something was imported, told or run"


ALL_BUT_EVIL = {"a": "copied", "evil": "refused", "z": "copied"}


@pytest.mark.parametrize("name", THREADS)
def test_a_thread_that_cannot_be_read_is_named_and_the_others_arrive(
    template: Path, tmp_path: Path, importer: Importer, name: str
) -> None:
    apply, told = THREADS[name]
    place = broken(template, tmp_path, name, apply)
    found = importer.bring(place)
    assert [*faults(found)] == []
    assert {thread: outcome for thread, (outcome, _) in found["threads"].items()} == ALL_BUT_EVIL
    reason = found["threads"]["evil"][1]
    assert told in reason
    assert 0 < len(reason) < 1500
    found = importer.bring(place, opaque=True)  # kept as bytes, or refused: nothing is built of them
    assert ([*faults(found)], "error" in found) == ([], False)


@pytest.mark.parametrize("name", FILES)
def test_a_database_that_is_none_is_refused(template: Path, tmp_path: Path, importer: Importer, name: str) -> None:
    apply, error = FILES[name]
    found = importer.bring(broken(template, tmp_path, name, apply))
    assert ([*faults(found)], found["error"][0]) == ([], error)


@pytest.mark.parametrize("damage", ["cut off", "random pages", "zeroes", "the header alone"])
def test_a_file_that_is_damaged_ends_typed(template: Path, tmp_path: Path, damage: str) -> None:
    data = bytearray(template.read_bytes())
    if damage == "random pages":
        data[4096:] = bytes((at * 7919) & 255 for at in range(len(data) - 4096))
    path = tmp_path / "theirs.db"
    path.write_bytes({
        "cut off": data[: len(data) // 2], "random pages": data, "zeroes": bytes(len(data)),
        "the header alone": data[:100],
    }[damage])  # fmt: skip
    typed = suppress(NotAStorageError, StorageDamagedError, StorageUnavailableError)
    with PerdureSaver.open("memory://") as saver, typed:
        assert import_from(str(path), saver).refused


def test_a_page_that_is_damaged_costs_one_thread(template: Path, tmp_path: Path) -> None:
    """What stands on the other pages arrives."""
    path = tmp_path / "theirs.db"
    shutil.copy(template, path)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        talk(saver, 4, "evil")  # overflows its page
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = db.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(path.read_bytes())
    at = data.rindex(b'"role"') if b'"role"' in data else data.rindex(b"assistant")
    data[at // size * size : at // size * size + 8] = b"\xff" * 8  # the page that comes after it, as SQLite chains them
    path.write_bytes(data)
    with PerdureSaver.open("memory://") as saver:
        report = import_from(str(path), saver)
    outcomes = {each.thread: each.outcome for each in report.threads}
    assert (outcomes["a"], outcomes["evil"], len(report.refused)) == ("copied", "refused", 1)


def test_threads_without_an_id_are_counted_and_named(template: Path, tmp_path: Path) -> None:
    path = broken(template, tmp_path, "ids", statements(
        "UPDATE checkpoints SET thread_id = x'ff00' WHERE thread_id = 'evil'",
        "UPDATE checkpoints SET thread_id = printf('%600s', 'x') WHERE thread_id = 'z'",
    ))  # fmt: skip
    with PerdureSaver.open("memory://") as saver:
        report = import_from(path, saver)
        assert [(each.thread, each.outcome, each.checkpoints) for each in report.threads] == [
            ("a", "copied", 3), ("?", "refused", 6)
        ]  # fmt: skip
        assert "no text, or too long" in report.refused[0].reason
        assert import_from(path, saver, threads=["a"]).refused == ()


@pytest.mark.parametrize("thread", ["", "a\0b", "\x1f"])
def test_an_id_that_cannot_be_used_is_refused(template: Path, tmp_path: Path, thread: str) -> None:
    path = broken(template, tmp_path, "ids", lambda db: db.execute(
        "UPDATE checkpoints SET thread_id = ? WHERE thread_id = 'evil'", (thread,)
    ))  # fmt: skip
    with PerdureSaver.open("memory://") as saver:
        outcomes = {each.thread: each.outcome for each in import_from(path, saver).threads}
    assert (outcomes["a"], outcomes["z"]) == ("copied", "copied")
    assert outcomes[thread] == ("copied" if thread == "\x1f" else "refused")


def test_a_limit_names_what_is_too_much_and_how_to_raise_it(template: Path) -> None:
    def reasons(**limits: Any) -> set[str]:
        with PerdureSaver.open("memory://") as saver:
            return {
                each.reason.partition(": ")[2] or each.reason
                for each in import_from(str(template), saver, **limits).refused
            }

    assert reasons() == set()
    told = "with what was written for it, it is larger than 1,000 bytes; allow more with max_bytes"
    assert reasons(max_bytes=1_000) == {told}
    with pytest.raises(StorageDamagedError, match="the threads in it are more than 2; allow more with max_rows"):
        reasons(max_rows=2)
    for wrong in ({"max_rows": 0}, {"max_bytes": -1}, {"max_seconds": float("nan")}, {"max_seconds": True}):
        with pytest.raises(InvalidInputError, match="must be a number above 0"):
            reasons(**wrong)


def test_a_thread_with_too_many_checkpoints_is_skipped(template: Path) -> None:
    with SqliteSaver.from_conn_string(str(template)) as source:
        talk(source, 2, "long")
    try:
        with PerdureSaver.open("memory://") as saver:
            (refused,) = import_from(str(template), saver, max_rows=4).refused
    finally:
        with SqliteSaver.from_conn_string(str(template)) as source:
            source.delete_thread("long")
    assert (refused.thread, refused.checkpoints) == ("long", 6)
    assert refused.reason == "the checkpoints of thread 'long' are more than 4; allow more with max_rows"


def test_an_import_that_is_out_of_time_goes_on_the_next_time(tmp_path: Path) -> None:
    path = str(tmp_path / "theirs.db")
    with SqliteSaver.from_conn_string(path) as source:
        talk(source, 60, "long")
    with sync.Perdure.open("memory://") as store:
        (first,) = import_from(path, store, max_seconds=0.5).threads
        assert "it takes longer than 0.5 seconds" in first.reason or first.outcome == "copied"
        (second,) = import_from(path, store).threads
    assert first.new + second.new == 180
    assert second.outcome in ("grew", "copied", "same")


def test_the_command_names_what_it_skipped_and_fails(template: Path, tmp_path: Path) -> None:
    path = broken(template, tmp_path, "one", columns(metadata="[1]"))
    ours = f"sqlite:///{tmp_path}/ours.db"
    done = perdure("import", "langgraph", path, "--into", ours)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0]) == (1, "imported           2 threads, 6 new of 6 checkpoints")
    assert lines[1] == "not imported       1 thread, 2 new of 3 checkpoints"
    assert "  evil: checkpoint '" in lines[2]
    assert "of thread 'evil': metadata is list, not a mapping (2 of 3 checkpoints were written before)" in lines[2]
    done = perdure("import", "langgraph", path, "--into", ours, "-o", "json", "--max-bytes", "1000")
    found = {each["thread"]: each["reason"] for each in json.loads(done.stdout)["threads"] if each["reason"]}
    assert (done.returncode, "allow more with max_bytes" in found["evil"]) == (1, True)


# PostgreSQL


def with_json(name: str, text: str) -> str:
    return f"UPDATE checkpoints SET {name} = '{text}' WHERE {NEWEST}"


def written(kind: str, data: bytes) -> str:
    point = f"SELECT thread_id, checkpoint_ns, checkpoint_id, 't', '', 0, 'c', '{kind}', '\\x{data.hex()}'::bytea"
    names = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob"
    return f"INSERT INTO checkpoint_writes ({names}) {point} FROM checkpoints WHERE {NEWEST}"


TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
BLOBS = "UPDATE checkpoint_blobs SET {} WHERE thread_id = 'evil' AND channel = 'messages'"
POSTGRES_THREADS = {
    "null": (with_json("checkpoint", "null"), "checkpoint is NoneType, not a mapping"),
    "a list": (with_json("checkpoint", "[1]"), "checkpoint is list, not a mapping"),
    "a number": (with_json("checkpoint", "5"), "checkpoint is int, not a mapping"),
    "5,000 digits": (with_json("checkpoint", f'{{"channel_versions": {{}}, "a": {DIGITS}}}'), "digits"),
    "deep": (with_json("checkpoint", '{"a": ' * 2_500 + "1" + "}" * 2_500), "recursion"),
    "no versions": (with_json("checkpoint", "{}"), "channel_versions: is no mapping"),
    "versions in a list": (with_json("checkpoint", '{"v": 1, "channel_versions": [1]}'), "is no mapping"),
    "versions of two kinds": (with_json("checkpoint", '{"v": "x", "channel_versions": {"a": {}}}'), "of each channel"),
    "values in a list": (with_json("checkpoint", '{"channel_versions": {}, "channel_values": [1]}'), "no mapping"),
    "metadata in a list": (with_json("metadata", "[1]"), "metadata is list, not a mapping"),
    "metadata with 5,000 digits": (with_json("metadata", f'{{"a": {DIGITS}}}'), "metadata is no JSON"),
    "a class": (with_json("checkpoint", f'{{"channel_versions": {{}}, "channel_values": {{"a": {running("1")}}}}}'),
                "os:system is not built"),
    "a pickle": (BLOBS.format("type = 'pickle'"), "kept as 'pickle'"),
    "a blob that is cut off": (BLOBS.format("blob = '\\x9201'::bytea"), "cannot be read"),
    "a blob of a call": (BLOBS.format(f"blob = '\\x{ext(0, 'os', 'system', 'touch MARKER').hex()}'::bytea"),
                         "os:system is not built"),
    "a blob of 100 MB": (BLOBS.format("blob = decode(repeat('00', 100000000), 'hex')"), "larger than"),
    "millions of nothings": (
        BLOBS.format("blob = '\\xdd01c9c380'::bytea || decode(repeat('c0', 30000000), 'hex')"), "2,000,000 parts"
    ),
    "a written pickle": (written("pickle", b"x"), "kept as 'pickle'"),
    "a written call": (written("msgpack", ext(0, "os", "system", "touch MARKER")), "os:system is not built"),
    "a written null": (written("msgpack", b"\x92\x01"), "cannot be read"),
}  # fmt: skip
_VIEW = f"CREATE VIEW checkpoints AS {ENDLESS} SELECT i::text AS thread_id, '' AS checkpoint_ns, '1' AS checkpoint_id,"
POSTGRES_FILES = {
    "an endless view": (DROP, f"{_VIEW} NULL::text AS parent_checkpoint_id, '{{}}'::jsonb AS checkpoint, "
                              "'{}'::jsonb AS metadata FROM n"),
    "a view that sleeps": (DROP, "CREATE VIEW checkpoints AS SELECT *, pg_sleep(1000) IS NULL AS x FROM moved"),
    "text for JSON": ("ALTER TABLE checkpoints ALTER metadata DROP DEFAULT, ALTER metadata TYPE text",),
    "numbers for ids": ("ALTER TABLE checkpoint_blobs DROP CONSTRAINT checkpoint_blobs_pkey",
                        "ALTER TABLE checkpoint_blobs ALTER version TYPE int USING 1"),
    "text for bytes": ("ALTER TABLE checkpoint_writes ALTER blob TYPE text USING 'x'",),
    "a column that is computed": ("ALTER TABLE checkpoints DROP COLUMN metadata",
                                  "ALTER TABLE checkpoints ADD metadata jsonb GENERATED ALWAYS AS ('{}') STORED"),
    "no table": ("DROP TABLE checkpoint_blobs",),
}  # fmt: skip


@contextmanager
def their_postgres(*lines: str) -> Iterator[str]:
    (url,) = a_postgres()
    try:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            for name in ("a", "evil", "z"):
                talk(saver, 1, name)
        with psycopg.connect(url, autocommit=True) as db:
            for line in lines:
                db.execute(line)  # type: ignore[arg-type]
        yield url
    finally:
        no_postgres(url)


@pytest.fixture(scope="module")
def in_postgres() -> Iterator[str]:
    with their_postgres() as url:
        with psycopg.connect(url, autocommit=True) as db:
            for table in TABLES:
                db.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
        yield url


@pytest.mark.parametrize("name", POSTGRES_THREADS)
def test_a_thread_in_postgresql_that_cannot_be_read_is_named(in_postgres: str, importer: Importer, name: str) -> None:
    statement, told = POSTGRES_THREADS[name]
    with psycopg.connect(in_postgres, autocommit=True) as db:
        for table in TABLES:
            db.execute(f"TRUNCATE {table}")
            db.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
        db.execute(statement)  # type: ignore[arg-type]
    found = importer.bring(in_postgres)
    assert [*faults(found)] == []
    assert {thread: outcome for thread, (outcome, _) in found["threads"].items()} == ALL_BUT_EVIL
    assert told in found["threads"]["evil"][1]


@pytest.mark.parametrize("name", POSTGRES_FILES)
def test_tables_that_are_not_langgraphs_are_refused(name: str) -> None:
    with their_postgres(*POSTGRES_FILES[name]) as url, PerdureSaver.open("memory://") as saver:
        began = time.monotonic()
        with pytest.raises(NotAStorageError):
            import_from(url, saver, max_seconds=20)
    assert time.monotonic() - began < SECONDS


def test_functions_of_the_database_are_not_called_instead_of_postgresqls() -> None:
    lines = [
        f"CREATE FUNCTION {name} RETURNS {kind} LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$"
        for name, kind in (("octet_length(text)", "int"), ("octet_length(bytea)", "int"), ("left(text, int)", "text"),
                           ("to_regclass(text)", "regclass"), ("set_config(text, text, boolean)", "text"))
    ]  # fmt: skip
    with their_postgres(*lines) as url:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(
                f"ALTER DATABASE {url.rpartition('/')[2].partition('?')[0]} SET search_path = public, pg_catalog"
            )
        with PerdureSaver.open("memory://") as saver:
            assert import_from(url, saver).refused == ()


def test_a_server_that_says_nothing_more_is_left() -> None:
    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            ready = b"R\0\0\0\x08\0\0\0\0" + b"S\0\0\0\x19client_encoding\0UTF8\0" + b"Z\0\0\0\x05I"
            connection.sendall(ready)
            while connection.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        url = f"postgresql://u@127.0.0.1:{listening.getsockname()[1]}/d?sslmode=disable&gssencmode=disable"
        with PerdureSaver.open("memory://") as saver, pytest.raises(StorageUnavailableError):
            import_from(url, saver, max_seconds=1)
