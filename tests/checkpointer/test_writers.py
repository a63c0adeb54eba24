"""Many writers on one thread: no message is lost, nobody overwrites what they have not seen, a kill leaves wholes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpointer import AgentState, BaseCheckpointer, Message, PgCheckpointer, SQLiteCheckpointer
from perdure.errors import PerdureError, VersionConflictError
from perdure.storage.drive import drive
from tests.checkpointer.places import ALICE, Face, made, said, texts

WRITERS = 20
TURNS = 2


@pytest.fixture(params=["sqlite", "sqlite, sync", "postgres", "postgres, sync"])
async def writing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Face]:
    kind, _, mode = request.param.partition(", ")
    face = Face(made(kind, tmp_path, request.getfixturevalue), sync=mode == "sync")
    yield face
    await face.release()


async def writer(face: Face, number: int) -> int:
    """Says things, and counts up in the state once; returns how often somebody else was first."""
    for turn in range(TURNS):
        await face.put_messages(ALICE, said(f"{number} {turn} a", f"{number} {turn} b"))
    lost = 0
    while True:
        state = await face.get_state(ALICE)
        state.execution_meta.step += 1
        try:
            await face.put_checkpoint(ALICE, state, said(f"{number} counted"))
        except VersionConflictError:
            lost += 1
            pause = 0.004 * lost * (1 + number % 5)
            time.sleep(pause) if face.sync else await asyncio.sleep(pause)
        else:
            return lost


async def all_at_once(face: Face) -> list[int]:
    if not face.sync:
        return await asyncio.gather(*(writer(face, number) for number in range(WRITERS)))
    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(lambda number: drive(writer(face, number)), range(WRITERS)))


async def test_twenty_writers_lose_nothing(writing: Face) -> None:
    """S2.40, S2.41: by tasks and by threads; conflicts are told, and order is that of the log."""
    await writing.put_state(ALICE, AgentState())
    lost = await all_at_once(writing)
    assert sum(lost) > 0
    assert (await writing.get_state(ALICE)).execution_meta.step == WRITERS
    found = texts(await writing.list_messages(ALICE))
    assert (len(found), len(set(found))) == (WRITERS * (2 * TURNS + 1),) * 2
    for number in range(WRITERS):
        own = [f"{number} {turn} {each}" for turn in range(TURNS) for each in "ab"]
        assert [each for each in found if each.split()[0] == str(number)] == [*own, f"{number} counted"]
    for at in range(0, len(found)):  # a batch is never torn
        assert not found[at].endswith(" a") or found[at + 1] == found[at][:-1] + "b"
    assert found == [each.text() for each in await in_the_log(writing)]


async def in_the_log(face: Face) -> list[Message]:
    """The messages by version."""

    async def read() -> list[Any]:
        return await face.checkpointer.thread(ALICE).messages()

    work = read()
    return face.checkpointer._drive(work) if face.sync else await work


async def test_a_failure_between_messages_and_state_leaves_neither(tmp_path: Path) -> None:
    checkpointer = SQLiteCheckpointer(tmp_path / "s.db")
    await checkpointer.aput_checkpoint(ALICE, AgentState(context_summary="before"), said("before"))
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as database:
        kind = "SELECT kind FROM perdure_entry ORDER BY row DESC LIMIT 1"
        database.execute(
            f"CREATE TRIGGER injected BEFORE INSERT ON perdure_entry WHEN NEW.kind = ({kind}) "
            "BEGIN SELECT RAISE(ABORT, 'injected'); END"
        )
        with pytest.raises(PerdureError):
            await checkpointer.aput_checkpoint(ALICE, AgentState(context_summary="after"), said("after", "too"))
        state = await checkpointer.aget_state(ALICE)
        assert (state and state.context_summary, texts(await checkpointer.alist_messages(ALICE))) == (
            "before", ["before"],
        )  # fmt: skip
        database.execute("DROP TRIGGER injected")
    await checkpointer.aput_checkpoint(ALICE, AgentState(context_summary="after"), said("after", "too"))
    assert texts(await checkpointer.alist_messages(ALICE)) == ["before", "after", "too"]
    await checkpointer.arelease()


KILLED = """
import sys
import time
from perdure.checkpointer import AgentState, Message, PgCheckpointer, SQLiteCheckpointer
made = PgCheckpointer if sys.argv[1].startswith("postgresql:") else SQLiteCheckpointer
checkpointer = made(sys.argv[1], namespace="killed")
config, state, turn = {"thread_id": sys.argv[2]}, AgentState(), 0
while True:
    turn += 1
    said = [Message.text_message(f"{turn} {part} " + "x" * 2000) for part in "abc"]
    state.context += said
    state.execution_meta.step = turn
    checkpointer.put_checkpoint(config, state, said)
    print(turn, flush=True)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_killed_process_leaves_state_and_messages_that_belong_together(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """S2.9, S2.39, S2.40: both or neither, and nothing that was acknowledged is lost."""
    url = request.getfixturevalue("postgres") if kind == "postgres" else str(tmp_path / "s.db")
    children = [
        subprocess.Popen([sys.executable, "-c", KILLED, url, f"t{number}"], stdout=subprocess.PIPE, text=True)
        for number in range(2)
    ]
    acknowledged = [_killed(child, after=5 + 3 * number) for number, child in enumerate(children)]
    cls: Any = PgCheckpointer if kind == "postgres" else SQLiteCheckpointer
    checkpointer: BaseCheckpointer = cls(url, namespace="killed")
    for number, turns in enumerate(acknowledged):
        state = checkpointer.get_state({"thread_id": f"t{number}"})
        assert state is not None
        kept = checkpointer.list_messages({"thread_id": f"t{number}"})
        assert state.context == kept
        assert len(kept) == 3 * state.execution_meta.step
        assert turns <= state.execution_meta.step <= turns + 1
    checkpointer.release()


def _killed(child: subprocess.Popen[str], after: int) -> int:
    """Kill a process in the middle of its work; the last turn that was acknowledged before."""
    assert child.stdout
    for _ in range(after):
        child.stdout.readline()
    child.kill()
    rest, _ = child.communicate()
    assert child.returncode == -signal.SIGKILL
    return max([after, *map(int, rest.split("\n")[:-1])])
