"""Rows of a database that were swapped between users or hold something else: never another's data, never untyped."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from perdure import Perdure
from tests.hostile.canary import Canary
from tests.hostile.catalogue import CODE, Hostile, register
from tests.hostile.judge import Judge
from tests.hostile.scene import NAMESPACE, SHARED, playing
from tests.hostile.trials import TRIALS, Trial

_ALICE = "(SELECT row FROM perdure_thread WHERE user_id = 'alice' AND id = 'shared')"
_MALLORY = "(SELECT row FROM perdure_thread WHERE user_id = 'mallory' AND id = 'shared')"
_OF_MALLORY = f"row >> 32 = {_MALLORY}"


def _entry(column: str) -> str:
    """The newest state entry of alice's in the place of mallory's."""
    theirs = f"(SELECT {column} FROM perdure_entry WHERE row >> 32 = {_ALICE} AND kind = 'state.saved' LIMIT 1)"
    return f"UPDATE perdure_entry SET {column} = {theirs} WHERE {_OF_MALLORY} AND kind = 'state.saved'"


def _all(*statements: str) -> str:
    return ";".join(statements)


def _payload(value: str) -> str:
    return f"UPDATE perdure_entry SET payload = {value} WHERE {_OF_MALLORY}"


def _thread(change: str) -> str:
    return f"UPDATE perdure_thread SET {change} WHERE user_id = 'mallory' AND id = 'shared'"


_PICKLE = "x'80049536000000000000008c05706f736978948c0673797374656d9493948c0269649485945294'"
_TAKEN = "(SELECT {0} FROM perdure_thread WHERE user_id = 'alice' AND id = 'shared')"
ROWS: dict[str, str] = {
    "alice's payload": _entry("payload"), "alice's payload and digest": _all(_entry("payload"),
    _entry("payload_digest")),
    "alice's payload, digest and chain": _all(_entry("payload"), _entry("payload_digest"), _entry("chain")),
    "alice's head digest": _thread(f"head_digest = {_TAKEN.format('head_digest')}"),
    "the hashes of the names swapped": _all(
        _thread("name_key = x'00'"),
        f"UPDATE perdure_thread SET name_key = (SELECT name_key FROM perdure_thread WHERE row = {_MALLORY}) WHERE 0",
    ),
    "a parent that is alice's": _thread(f"parent = {_TAKEN.format('uid')}, parent_version = 1"),
    "a parent that is itself": _thread("parent = uid, parent_version = 1"),
    "a head beyond the end": _thread("head = 1000"), "a head before the begin": _thread("head = -5"),
    "a head that is a text": _thread("head = 'x'"), "a huge head": _thread("head = 9223372036854775807"),
    "a status of code": _thread(f"status = '{CODE.replace(chr(39), chr(39) * 2)}'"),
    "tags of code": _thread("tags = '!!python/name:os.system'"),
    "tags that never end": _thread(f"tags = '{'[' * 100_000}'"), "metadata that is none": _thread("metadata = x'c1'"),
    "metadata that is deep": _thread(f"metadata = x'{'91' * 100_000}'"),
    "an epoch that is a text": _thread("epoch = 'x'"),
    "a lease of alice": _thread("lease_owner = 'alice', lease_until = 9223372036854775807"),
    "a pickle": _payload(_PICKLE),
    "a pickle in an envelope": _payload(f"x'010000' || {_PICKLE}"),
    "nothing": _payload("x''"), "a text": _payload("'text'"), "a number": _payload("7"),
    "an unknown envelope": _payload("x'ff0000c0'"),
    "a compressed bomb": _payload("x'010100' || x'28b52ffda0ffffff7f' || zeroblob(100)"),
    "a huge array": _payload("x'010000ddffffffff'"),
    "a huge map": _payload("x'010000dfffffffff'"), "a huge text": _payload("x'010000dbffffffff'"),
    "a huge extension": _payload("x'010000c9ffffffff01'"),
    "a deep list": _payload(f"x'010000{'91' * 100_000}'"),
    "an unknown extension": _payload("x'010000c70a7f00000000000000000000'"),
    "another kind": f"UPDATE perdure_entry SET kind = '{SHARED}' WHERE {_OF_MALLORY}",
    "a run that began": f"UPDATE perdure_entry SET kind = 'run.started' WHERE {_OF_MALLORY}",
    "a decision": f"UPDATE perdure_entry SET kind = 'pause.decided' WHERE {_OF_MALLORY}",
    "a time that is none": f"UPDATE perdure_entry SET at = 9223372036854775807 WHERE {_OF_MALLORY}",
    "an actor of bytes": f"UPDATE perdure_entry SET actor = x'ff' WHERE {_OF_MALLORY}",
    "a schema of the future": "UPDATE perdure_meta SET value = '99999999999999999999' WHERE name = 'min_reader'",
    "a schema that is none": "UPDATE perdure_meta SET value = 'x' WHERE name = 'schema'",
    "a view for a table": _all("ALTER TABLE perdure_thread RENAME TO t2",
    "CREATE VIEW perdure_thread AS SELECT * FROM t2"),
    "alice's thread, renamed": _all(
        "DELETE FROM perdure_thread WHERE user_id = 'mallory'",
        "UPDATE perdure_thread SET user_id = 'mallory' WHERE user_id = 'alice'",
    ),
    "a trigger": (
        "CREATE TRIGGER evil AFTER UPDATE ON perdure_thread BEGIN UPDATE perdure_entry SET payload = 'x'; END"
    ),
}  # fmt: skip
register("rows", ROWS)


async def play_rows(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    whole = folder / "whole.db"
    async with playing((f"sqlite:///{whole}", {}), "async", folder, canary):
        pass
    for each in chosen:
        spoilt = folder / "spoilt.db"
        shutil.copyfile(whole, spoilt)
        with closing(sqlite3.connect(spoilt)) as connection:
            connection.executescript(each.value)
        await _read_all(judge, str(each), f"sqlite:///{spoilt}")
        for left in folder.glob("spoilt.db*"):
            left.unlink()


async def _read_all(judge: Judge, what: str, url: str) -> None:
    """Whatever mallory can ask for: typed errors or her own data."""
    store = Perdure.open(url, namespace=NAMESPACE, lease_ttl=0.2)
    scope = store.scope(user="mallory")
    thread = scope.thread(SHARED)
    asked = {
        "load": thread.load, "load a version": lambda: thread.load("@1"), "messages": thread.messages,
        "history": thread.history,
        "entries": thread.entries, "info": thread.info, "timeline": thread.timeline, "tree": thread.tree,
        "threads": scope.threads,
        "search": lambda: scope.search("secret"), "analytics": scope.analytics, "runs": scope.runs,
        "pauses": scope.pauses,
        "why": lambda: scope.why(SHARED), "resume": lambda: scope.resume(SHARED),
        "compare": lambda: scope.compare(SHARED, SHARED),
        "fork": lambda: thread.fork(to="a fork"), "append": lambda: thread.append("log", "x"),
        "save": lambda: thread.save({"a": 1}),
        "verify": scope.verify, "recover": store.recover,
    }  # fmt: skip
    for name, work in asked.items():
        await judge.call(f"{what}, {name}", work)
    await judge.call(f"{what}, close", store.close)


TRIALS.append(Trial(category="rows", backends=("sqlite",), play=play_rows))
