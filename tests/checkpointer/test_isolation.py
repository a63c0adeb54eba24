"""Whatever one user asks for, nothing of another's comes back, and what is refused looks absent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.checkpointer import AgentState, BaseCheckpointer, Message, ThreadInfo
from perdure.errors import PerdureError
from tests.checkpointer.isolation import PLAYS, THREADS, World, play
from tests.checkpointer.places import Face, made, said
from tests.checkpoints.places import PLACES, Place
from tests.faults.watching import watched

SECRET = "swordfish"
MALLORY = "mallory"
FOREIGN = {
    "asetup": "has no config", "aflush": "has no config", "arelease": "has no config",
    "awarm": "is for trusted code, and answers with a number",
}  # fmt: skip


class Names(msgspec.Struct, frozen=True):
    """What somebody else's things are called, or would be."""

    thread: str
    messages: tuple[str, str]
    checkpoints: tuple[Any, Any]
    versions: tuple[int, int]
    call: str


Attack = Callable[[BaseCheckpointer, dict[str, Any], Names], Coroutine[Any, Any, Any]]
ATTACKS: list[tuple[str, Attack]] = [
    ("aget_state", lambda c, m, n: c.aget_state(m)),
    ("aget_state", lambda c, m, n: c.aget_state(m, ref=n.checkpoints[0])),
    ("aget_state", lambda c, m, n: c.aget_state(m, ref=n.versions[0])),
    ("aget_state", lambda c, m, n: c.aget_state(m, ref="@-1")),
    ("aget_state", lambda c, m, n: c.aget_state(m, ref="@1h")),
    ("aget_state", lambda c, m, n: c.aget_state(m, ref="@tag:golden")),
    ("aget_state_cache", lambda c, m, n: c.aget_state_cache(m)),
    ("alist_states", lambda c, m, n: c.alist_states(m)),
    ("acompare_states", lambda c, m, n: c.acompare_states(m, *n.checkpoints)),
    ("acompare_states", lambda c, m, n: c.acompare_states(m, *n.versions)),
    ("arestore_state", lambda c, m, n: c.arestore_state(m, n.checkpoints[0])),
    ("afork", lambda c, m, n: c.afork(m, "mine", ref=n.checkpoints[0])),
    ("afork", lambda c, m, n: c.afork(m, "mine")),
    ("aclear_state", lambda c, m, n: c.aclear_state(m)),
    ("alist_messages", lambda c, m, n: c.alist_messages(m)),
    ("alist_messages", lambda c, m, n: c.alist_messages(m, search=SECRET)),
    ("alist_messages", lambda c, m, n: c.alist_messages(m, before=n.messages[1])),
    ("alist_messages", lambda c, m, n: c.alist_messages(m, after=n.messages[0], limit=10)),
    ("alist_messages", lambda c, m, n: c.alist_messages(m, metadata={"tool_call_id": n.call})),
    ("alist_messages", lambda c, m, n: c.alist_messages(m, node="n' OR '1'='1", run_id="r' OR 1=1 --")),
    ("alist_messages", lambda c, m, n: c.alist_messages(m, role=["user", "tool", "') OR ('1'='1"])),
    ("alist_messages", lambda c, m, n: c.alist_messages(m, since=datetime(2000, 1, 1, tzinfo=UTC))),
    ("aget_message", lambda c, m, n: c.aget_message(m, n.messages[0])),
    ("adelete_message", lambda c, m, n: c.adelete_message(m, n.messages[0])),
    ("asearch", lambda c, m, n: c.asearch(m, SECRET)),
    ("asearch", lambda c, m, n: c.asearch({**m, "thread_id": n.thread}, "")),
    ("aanalytics", lambda c, m, n: c.aanalytics(m)),
    ("aanalytics", lambda c, m, n: c.aanalytics({"user_id": m["user_id"]})),
    ("aget_thread", lambda c, m, n: c.aget_thread(m)),
    ("alist_threads", lambda c, m, n: c.alist_threads({"user_id": m["user_id"]})),
    ("alist_threads", lambda c, m, n: c.alist_threads(m, search=n.thread)),
    ("alist_threads", lambda c, m, n: c.alist_threads(m, tag="private", metadata={"room": 7}, status="idle")),
    ("aput_thread", lambda c, m, n: c.aput_thread(m, ThreadInfo(thread_id=n.thread, user_id="alice"))),
    ("aclean_thread", lambda c, m, n: c.aclean_thread(m)),
    ("aget_tool_result", lambda c, m, n: c.aget_tool_result(m, n.call)),
    ("aget_cache_value", lambda c, m, n: c.aget_cache_value("cache-hers", "key-hers", config=m)),
    ("aclear_cache_value", lambda c, m, n: c.aclear_cache_value("cache-hers", "key-hers", config=m)),
    ("alist_cache_keys", lambda c, m, n: c.alist_cache_keys("cache-hers", config=m)),
    ("arepair_history", lambda c, m, n: c.arepair_history(m)),
]  # fmt: skip
# These make a thread of one's own, whatever others call theirs.
WRITES: list[tuple[str, Attack]] = [
    ("aput_messages", lambda c, m, n: c.aput_messages(m, said(*n.messages))),
    ("aput_tool_result", lambda c, m, n: c.aput_tool_result(m, n.call, "mine")),
    ("aput_cache_value", lambda c, m, n: c.aput_cache_value("cache-hers", "key-hers", "mine", config=m)),
    ("aput_state", lambda c, m, n: c.aput_state(m, AgentState(context_summary="mine"))),
    ("aput_checkpoint", lambda c, m, n: c.aput_checkpoint(m, AgentState(), said(*n.messages))),
    ("arepair_conversation", lambda c, m, n: c.arepair_conversation(m)),
    ("aput_thread", lambda c, m, n: c.aput_thread(m, ThreadInfo(thread_id=n.thread, thread_name="Mine"))),
]  # fmt: skip


@pytest.fixture(params=["memory", "sqlite", "postgres", "mariadb"])
async def checkpointer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseCheckpointer]:
    one = made(request.param, tmp_path, request.getfixturevalue)
    yield one
    await one.arelease()


async def filled(checkpointer: BaseCheckpointer) -> Names:
    """Alice has a thread with everything that a thread can have."""
    config = {"thread_id": "thr-hers", "user_id": "alice", "run_id": "r"}
    for turn in ("one", "two"):
        message = Message.text_message(
            f"{SECRET} {turn}", id=f"msg-hers-{turn}", metadata={"tool_call_id": "call-hers"}
        )
        await checkpointer.aput_checkpoint(config, AgentState(context_summary=f"{SECRET} {turn}"), [message])
    info = ThreadInfo(
        thread_id="thr-hers", user_id="alice", thread_name=SECRET, metadata={"tags": ["private"], "room": 7}
    )
    await checkpointer.aput_thread(config, info)
    await checkpointer.aput_tool_result(config, "call-hers", SECRET)
    await checkpointer.aput_cache_value("cache-hers", "key-hers", SECRET, config=config)
    await checkpointer.thread(config).tag("@-1", "golden")
    new, old = await checkpointer.alist_states(config)
    return Names(
        "thr-hers", ("msg-hers-one", "msg-hers-two"), (old.id, new.id), (old.version, new.version), "call-hers"
    )


ABSENT = Names("thr-none", ("msg-none-one", "msg-none-two"), ("chk_0000000", "chk_1111111"), (2, 4), "call-none")


async def everything(checkpointer: BaseCheckpointer) -> Any:
    """All that Alice sees."""
    config = {"thread_id": "thr-hers", "user_id": "alice"}
    entries = await checkpointer.thread(config).entries()
    return (
        [each.chain for each in entries],
        await checkpointer.aget_state(config),
        await checkpointer.alist_states(config),
        await checkpointer.alist_messages(config),
        await checkpointer.aget_thread(config),
        await checkpointer.aget_tool_result(config, "call-hers"),
        await checkpointer.aget_cache_value("cache-hers", "key-hers", config=config),
        await checkpointer.alist_threads({"user_id": "alice"}),
        await checkpointer.aanalytics({"user_id": "alice"}),
    )


async def answer(checkpointer: BaseCheckpointer, attack: Attack, user: str, names: Names) -> str:
    """What somebody is told, with the names they used themselves blotted out."""
    try:
        told = repr(await attack(checkpointer, {"thread_id": names.thread, "user_id": user}, names))
    except (PerdureError, ValueError) as exc:
        told = f"{type(exc).__name__}: {exc}"
    for name in (names.thread, *names.messages, *map(str, names.checkpoints), names.call):
        told = told.replace(repr(name), "…").replace(name, "…")
    return told


async def test_nothing_comes_back_and_what_is_refused_looks_absent(checkpointer: BaseCheckpointer) -> None:
    names = await filled(checkpointer)
    before = await everything(checkpointer)
    for name, attack in ATTACKS:
        told = await answer(checkpointer, attack, MALLORY, names)
        assert SECRET not in told, name
        assert told == await answer(checkpointer, attack, MALLORY, ABSENT), name
    assert await everything(checkpointer) == before


async def test_a_user_who_is_called_almost_the_same_is_another(checkpointer: BaseCheckpointer) -> None:
    names = await filled(checkpointer)
    first = dict(reversed(ATTACKS))
    for look in ("aget_state", "alist_messages", "asearch", "alist_threads", "aanalytics"):
        for user in ("", "ALICE", "alice ", "alice%", "alice' OR '1'='1", "alicé", "a_ice", "alice\n", "al\u0456ce"):
            told = await answer(checkpointer, first[look], user, names)
            assert told == await answer(checkpointer, first[look], user, ABSENT), (look, user)
        assert SECRET in await answer(checkpointer, first[look], "alice", names) or look == "aanalytics"


async def test_the_same_names_are_ones_own_and_touch_nobody_elses(checkpointer: BaseCheckpointer) -> None:
    names = await filled(checkpointer)
    before = await everything(checkpointer)
    mine = {"thread_id": names.thread, "user_id": MALLORY}
    stolen = (await checkpointer.alist_states({"thread_id": "thr-hers", "user_id": "alice"}))[0]
    for _, attack in WRITES:
        await attack(checkpointer, mine, names)
    await checkpointer.aput_state(mine, AgentState(context_summary="mine"))
    for name, attack in [("aget_state", lambda c, m, n: c.aget_state(m, ref=stolen)), *ATTACKS]:
        assert SECRET not in await answer(checkpointer, attack, MALLORY, names), name
    assert await everything(checkpointer) == before
    assert await checkpointer.aget_tool_result({"thread_id": "thr-hers", "user_id": "alice"}, names.call) == SECRET


def test_every_call_is_tried() -> None:
    calls = {name for name in dir(BaseCheckpointer) if name.startswith("a")} - {"active", "analytics"}
    assert calls == {name for name, _ in (*ATTACKS, *WRITES)} | set(FOREIGN)


async def test_every_statement_names_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of others are not left out afterwards: no statement asks for them."""
    checkpointer = made("sqlite", tmp_path, str)
    names = await filled(checkpointer)
    await everything(checkpointer)
    await checkpointer.arelease()
    with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db")) as database:
        hers = {key.hex() for (key,) in database.execute("SELECT name_key FROM perdure_thread")}
    with watched(monkeypatch) as watch:
        for _, attack in ATTACKS:
            await answer(checkpointer, attack, MALLORY, names)
        await checkpointer.arelease()
    asked = [each for each in watch.statements if re.search(r"\bperdure_(?!meta|message_search)", each)]
    reads = [each for each in asked if not each.startswith(("--", "CREATE", "PRAGMA"))]
    assert len(reads) > 50
    for statement in reads:
        keys = set(re.findall(r"name_key = x'(\w+)'", statement.lower()))
        assert "user_id = 'mallory'" in statement or (keys and not keys & hers), statement


_NUMBERS = itertools.count()  # no two examples share a namespace
_MOVES = st.lists(
    st.tuples(*(st.integers(0, len(each) - 1) for each in (PLAYS, THREADS, THREADS))), min_size=20, max_size=60
)
_EXAMPLES = {"memory": 60, "sqlite": 20, "file": 12}


@pytest.mark.parametrize("isolated", [True, False], ids=["enforced", "trusted"])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("kind", PLACES)
def test_each_caller_sees_exactly_what_is_its_own(kind: str, mode: str, isolated: bool, tmp_path: Path) -> None:
    """Without a user a config is refused where isolation is enforced; else it means the only thread of its id."""
    place = PLACES[kind](tmp_path)

    @settings(max_examples=_EXAMPLES.get(kind, 5))
    @given(_MOVES)
    def played(moves: list[tuple[int, int, int]]) -> None:
        asyncio.run(_played(place, mode, isolated, moves))

    played()


async def _played(place: Place, mode: str, isolated: bool, moves: list[tuple[int, int, int]]) -> None:
    url, options = place
    one = BaseCheckpointer(url, namespace=f"tenant{next(_NUMBERS)}", enforce_user_isolation=isolated, **options)
    face = Face(one, sync=mode == "sync")
    try:
        world = World(face, isolated)
        for number, thread, other in moves:
            await play(world, number, THREADS[thread], THREADS[other])
    finally:
        await face.release()
