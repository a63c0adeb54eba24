"""Listing folds a thread once: every listed checkpoint is what asking for it by its id gives, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from perdure.adapters.langgraph import PerdureSaver, listing, upkeep
from perdure.adapters.langgraph.writes import begins, prefix
from perdure.checkpoints import restoring
from perdure.core.codec import encode

TURNS = 60


@pytest.fixture(params=["memory:", "sqlite", "serde"])
def saver(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[PerdureSaver]:
    url = "memory:" if request.param == "memory:" else f"sqlite:///{tmp_path}/a.db"
    serde = JsonPlusSerializer() if request.param == "serde" else None
    with PerdureSaver.open(url, serde=serde) as opened:
        yield opened


class Thread:
    """A thread that grows as a graph lets it grow."""

    def __init__(self, saver: PerdureSaver, name: str, ns: str = "") -> None:
        self.saver = saver
        self.config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ns}}
        self.messages: list[Any] = []
        self.turn = 0
        self.ids: list[str] = []

    def put(self, parent: str | None = None, **more: Any) -> str:
        self.turn += 1
        self.messages = [*self.messages, _message(self.turn)]
        checkpoint = _checkpoint(self.turn, self.messages, more)
        config = self._at(parent or (self.ids[-1] if self.ids else None))
        metadata: Any = {"source": "loop", "step": self.turn, "run_id": f"run {self.turn % 3}"}
        self.saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])
        self.ids.append(checkpoint["id"])
        return checkpoint["id"]

    def grow(self, turns: int) -> Thread:
        for _ in range(turns):
            point = self.put()
            if self.turn % 4 == 0:
                self.saver.put_writes(self._at(point), [("messages", _message(0)), ("context", {"a": [1]})], "task")
        return self

    def _at(self, point: str | None) -> Any:
        given = self.config["configurable"] | ({"checkpoint_id": point} if point else {})
        return {"configurable": given}


def _message(turn: int) -> Any:
    text = f"message {turn} " * 20
    return (
        {"role": "user", "content": text, "parts": [{"text": text}], "when": datetime(2026, 1, 1, tzinfo=UTC)},
        AIMessage(text, id=str(turn), tool_calls=[{"name": "look", "args": {"at": turn}, "id": "1"}]),
        {"role": "user", "content": text, "tokens": turn},
        HumanMessage(text, id=str(turn), additional_kwargs={"seen": {"by": [turn]}}),
        (text, {"inside": [turn]}),
    )[turn % 5]


def _checkpoint(turn: int, messages: list[Any], more: dict[str, Any]) -> Any:
    values = {"messages": messages, "context": {"a": turn, "b": "same", "c": {"d": [turn // 7]}}, "tags": {"x", turn}}
    values |= {"one": AIMessage("alone", id="one")} | more
    versions = dict.fromkeys(values, turn)
    return empty_checkpoint() | {
        "id": str(uuid6(clock_seq=turn)), "channel_values": values, "channel_versions": versions,
        "versions_seen": {"agent": {"messages": turn - 1}},
    }  # fmt: skip


def _bytes(found: Any) -> bytes:
    return encode([found.checkpoint, found.metadata, found.pending_writes])


def _same(saver: PerdureSaver, config: Any = None, **options: Any) -> list[Any]:
    """Compare everything that is listed with what asking for it gives, types and all."""
    listed = list(saver.list(config, **options))
    for each in listed:
        alone = saver.get_tuple(each.config)
        assert alone == each
        assert _bytes(alone) == _bytes(each)
    return listed


def test_every_listed_checkpoint_is_what_its_id_gives(saver: PerdureSaver) -> None:
    thread = Thread(saver, "t").grow(TURNS)
    listed = _same(saver, thread.config)
    assert [each.checkpoint["id"] for each in listed] == thread.ids[::-1]
    assert sum(bool(each.pending_writes) for each in listed) == TURNS // 4
    assert len(_same(saver, thread.config, limit=7)) == 7
    assert len(_same(saver, thread.config, before=listed[20].config, limit=10)) == 10
    assert len(_same(saver, thread.config, filter={"run_id": "run 1"})) == TURNS // 3


def test_states_that_a_fork_left_behind_are_listed_as_they_were(saver: PerdureSaver) -> None:
    thread = Thread(saver, "t").grow(30)
    thread.messages = thread.messages[:5]
    thread.put(thread.ids[4], other=[1, 2])
    thread.grow(10)
    saver.copy_thread("t", "copy")
    assert len(_same(saver, thread.config)) == 41
    assert len(_same(saver, {"configurable": {"thread_id": "copy"}})) == 41
    assert len(_same(saver)) == 82


def test_threads_that_lost_checkpoints_list_the_rest(saver: PerdureSaver) -> None:
    thread = Thread(saver, "t").grow(30)
    saver.delete_for_runs(["run 1"])
    assert len(_same(saver, thread.config)) == 20
    thread.grow(5)
    assert len(_same(saver, thread.config)) == 25
    saver.prune(["t"])
    assert [each.checkpoint["id"] for each in _same(saver, thread.config)] == [thread.ids[-1]]
    thread.grow(5)
    assert len(_same(saver, thread.config)) == 6


def test_subgraphs_are_listed_with_their_graph(saver: PerdureSaver) -> None:
    Thread(saver, "t").grow(5)
    Thread(saver, "t", "inner:1").grow(6)
    Thread(saver, "u", "inner:1|deeper:2").grow(7)
    assert len(_same(saver, {"configurable": {"thread_id": "t"}})) == 11
    assert len(_same(saver)) == 18


def test_whoever_changes_a_listed_state_changes_no_other(saver: PerdureSaver) -> None:
    thread = Thread(saver, "t").grow(20)
    expected = [_bytes(each) for each in saver.list(thread.config)]
    listed = list(saver.list(thread.config))
    for at, each in enumerate(listed):
        assert _bytes(each) == expected[at]
        _spoil(each.checkpoint)
        _spoil(each.metadata)
        _spoil(each.pending_writes)
    assert [_bytes(each) for each in saver.list(thread.config)] == expected


def _spoil(value: Any) -> None:
    """Change everything that can be changed, from the inside out."""
    if isinstance(value, dict):
        for each in value.values():
            _spoil(each)
        value["spoilt"] = True
    elif isinstance(value, list | tuple):
        for each in value:
            _spoil(each)
        if isinstance(value, list):
            value.append("spoilt")
    elif isinstance(value, set):
        value.add("spoilt")
    elif hasattr(value, "__pydantic_fields__"):
        _spoil(vars(value))
        value.__pydantic_fields_set__.add("spoilt")


def test_checkpoints_far_apart_are_not_folded_through(saver: PerdureSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "_NEAR", 2)
    thread = Thread(saver, "t").grow(30)
    assert len(_same(saver, thread.config, filter={"run_id": "run 2"})) == 10


@pytest.mark.parametrize("dropping", ["prune", "delete_for_runs", "delete_thread"])
def test_what_is_dropped_while_it_is_listed_is_left_out(
    saver: PerdureSaver, monkeypatch: pytest.MonkeyPatch, dropping: str
) -> None:
    thread = Thread(saver, "t").grow(30)
    given: dict[str, Any] = {"prune": (["t"], "keep_latest"), "delete_for_runs": (["run 1"],), "delete_thread": ("t",)}
    find = listing.lines

    async def lines(keeper: Any, wanted: Any) -> Any:
        found = await find(keeper, wanted)
        monkeypatch.setattr(listing, "lines", find)
        await getattr(upkeep, dropping)(keeper, *given[dropping])
        return found

    monkeypatch.setattr(listing, "lines", lines)
    left = {"prune": 1, "delete_for_runs": 20, "delete_thread": 0}
    found = list(saver.list(thread.config))
    assert len(found) == left[dropping]
    assert [_bytes(each) for each in found] == [_bytes(each) for each in _same(saver, thread.config)]


def test_a_few_beginnings_cover_the_keys_of_all_checkpoints() -> None:
    ids = [str(uuid6(clock_seq=at)) for at in range(200)] + ["1f0a", "own id", "zzz"]
    for most in (1, 2, 4, 8, len(ids)):
        found = begins(ids, most)
        assert len(found) <= most
        assert all(sum(prefix(id).startswith(begin) for begin in found) == 1 for id in ids)
