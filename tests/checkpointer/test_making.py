"""Making a checkpointer: what it takes, what it refuses, how nodes get hold of it, what it measures."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from injectq import Inject, InjectQ, inject
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import perdure.checkpointer
from perdure.checkpointer import (
    AgentState,
    BaseCheckpointer,
    InMemoryCheckpointer,
    MySQLCheckpointer,
    PgCheckpointer,
    SQLiteCheckpointer,
    bind,
    current_checkpointer,
    injecting,
)
from perdure.checkpointer import calls as calls_module
from perdure.checkpointer.config import _arguments
from perdure.errors import ForkedProcessError, InvalidInputError, InvalidUrlError, StorageUnavailableError
from tests.checkpointer.places import ALICE, said

NOWHERE = "postgresql://agent:secret@127.0.0.1:1/nowhere"
MAKERS = (InMemoryCheckpointer, SQLiteCheckpointer, PgCheckpointer, MySQLCheckpointer)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the machine, and a folder that may be filled."""
    for name in ("DATABASE_URL", "CACHE_URL", "CACHE_TTL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("cls", MAKERS)
def test_making_one_neither_connects_nor_fails(cls: Any) -> None:
    cls()
    assert os.listdir() == []
    PgCheckpointer(NOWHERE, "redis://127.0.0.1:1")
    PgCheckpointer(user_id_type="nonsense")  # type: ignore[arg-type]


async def test_the_first_call_says_what_is_missing() -> None:
    with pytest.raises(InvalidInputError, match="give postgres_dsn, or set DATABASE_URL"):
        await PgCheckpointer().aget_state(ALICE)
    with pytest.raises(InvalidInputError, match="give mysql_dsn, or set DATABASE_URL"):
        MySQLCheckpointer().get_state(ALICE)
    with pytest.raises(InvalidUrlError, match="postgres_dsn"):
        await PgCheckpointer("mysql://localhost/x").asetup()
    with pytest.raises(InvalidInputError, match="user_id_type"):
        await PgCheckpointer(NOWHERE, user_id_type="text").asetup()  # type: ignore[arg-type]


async def test_the_environment_is_asked_when_it_is_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.54."""
    made = PgCheckpointer(max_cached_threads=5, retry_seconds=0)
    monkeypatch.setenv("DATABASE_URL", NOWHERE)
    monkeypatch.setenv("CACHE_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("CACHE_TTL", "60")
    url, options = made._address("async")
    assert (url, options["hot"]) == (NOWHERE, "redis://127.0.0.1:1")
    assert (options["cache_ttl"], options["max_cached_threads"]) == (60.0, 5)
    assert PgCheckpointer(NOWHERE, "redis://other", cache_ttl=7)._address("async")[1]["cache_ttl"] == 7
    with pytest.raises(StorageUnavailableError):
        await made.aget_state(ALICE)
    await made.arelease()
    monkeypatch.setenv("CACHE_TTL", "soon")
    with pytest.raises(InvalidInputError, match="CACHE_TTL"):
        await made.aget_state(ALICE)


@pytest.mark.parametrize(
    ("cls", "option", "hint"),
    [
        (PgCheckpointer, "postgres_dns", "'postgres_dsn'"),
        (PgCheckpointer, "cache_tll", "'cache_ttl'"),
        (PgCheckpointer, "state_history_limits", "'state_history_limit'"),
        (PgCheckpointer, "call_time_out", "'call_timeout'"),
        (MySQLCheckpointer, "mysql_dns", "'mysql_dsn'"),
        (MySQLCheckpointer, "schema", None),
        (SQLiteCheckpointer, "pth", "'path'"),
        (InMemoryCheckpointer, "hot", None),
        (InMemoryCheckpointer, "name_space", "'namespace'"),
    ],
)
def test_an_argument_that_nobody_knows_is_refused_with_a_suggestion(cls: Any, option: str, hint: str | None) -> None:
    with pytest.raises(TypeError, match=rf"^{cls.__name__}\(\) got an unexpected keyword argument '{option}'") as told:
        cls(**{option: 1})
    assert str(told.value).endswith(f", did you mean {hint}?" if hint else f"'{option}'")


async def test_every_option_is_read() -> None:
    async with SQLiteCheckpointer("a.db", durability="background", max_pending=5, namespace="n", cache_bytes=0) as made:
        await made.aput_state(ALICE, AgentState())
        await made.aflush()
        assert made.store._namespace == "n"
    with pytest.raises(InvalidInputError, match="max_pending_writes"):
        InMemoryCheckpointer(max_pending_writes=0)
    assert PgCheckpointer(NOWHERE, call_timeout=None)._address("async")[1]["call_timeout"] is None
    async with SQLiteCheckpointer("sqlite:///b%20c.db", migrate="auto") as other:
        await other.aput_state(ALICE, AgentState())
    async with SQLiteCheckpointer(Path("d #%.db")) as odd:
        await odd.aput_state(ALICE, AgentState())
    assert {"a.db", "b c.db", "d #%.db"} <= set(os.listdir())


async def test_a_released_checkpointer_opens_again_at_the_next_call() -> None:
    made = SQLiteCheckpointer()
    made.put_state(ALICE, AgentState())
    await made.aput_state(ALICE, AgentState())
    await made.arelease()
    await made.arelease()
    assert made.get_state(ALICE) == await made.aget_state(ALICE) == AgentState()
    made.release()
    made.release()


def test_an_unavailable_storage_gives_a_fresh_state_only_to_those_who_ask(caplog: pytest.LogCaptureFixture) -> None:
    """S2.52."""
    made = PgCheckpointer(NOWHERE, retry_seconds=0)
    for call in (made.get_state, made.get_state_cache):
        with pytest.raises(ConnectionError) as told:
            call(ALICE)
        assert isinstance(told.value, StorageUnavailableError)
        assert call(ALICE, on_unavailable="fresh") == AgentState()
    assert caplog.text.count("the storage cannot be reached, starting with a fresh state") == 2
    assert "secret" not in caplog.text
    with pytest.raises(InvalidInputError, match="on_unavailable"):
        made.get_state(ALICE, on_unavailable="empty")  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        made.put_state(ALICE, AgentState())
    made.release()


class Counting(InMemoryCheckpointer):
    """S2.56: what a user's own subclass looks like."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def aput_state(self, config: Any, state: AgentState) -> AgentState:
        self.calls.append("put_state")
        return await super().aput_state(config, state)

    async def aput_messages(self, config: Any, messages: Any, metadata: Any = None) -> None:
        self.calls.append("put_messages")
        await super().aput_messages(config, messages, metadata)

    async def aget_state(self, config: Any, **asked: Any) -> AgentState | None:
        self.calls.append("get_state")
        return await super().aget_state(config, **asked)


async def test_twins_background_writes_and_other_calls_go_through_an_override() -> None:
    """S2.56."""
    made = Counting()
    await made.aput_state(ALICE, AgentState())
    made.put_state(ALICE, AgentState())
    made.put_messages(ALICE, said("one"))
    made.put_messages_soon(ALICE, said("two"))
    await made.aflush()
    await made.aget_state_cache(ALICE)
    assert made.calls == ["put_state", "put_state", "put_messages", "put_messages", "get_state"]


def test_every_call_has_a_twin_with_the_same_arguments() -> None:
    """N2: synchronous twins of all."""
    calls = {name for name in dir(BaseCheckpointer) if name.startswith("a")} - {"active", "analytics"}
    assert len(calls) > 25
    for name in calls:
        one, other = getattr(BaseCheckpointer, name), getattr(BaseCheckpointer, name.removeprefix("a"))
        assert (one.__doc__ or "").strip(), name
        assert (other.__doc__ or "").startswith(f"`{name}` for synchronous code"), name
        assert inspect.signature(one) == inspect.signature(other)
        assert not inspect.iscoroutinefunction(other)


def test_what_a_twin_is_given_is_checked_like_its_call() -> None:
    with pytest.raises(TypeError, match="limt"):
        InMemoryCheckpointer().list_threads(limt=3)  # type: ignore[call-arg]


def test_the_guide_names_every_call_option_and_class() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "session-memory.md").read_text(encoding="utf-8")
    calls = {name for name in dir(BaseCheckpointer) if name.startswith("a")} - {"analytics"}
    taken = {name for cls in MAKERS for name in (*cls._takes, *_arguments(cls), *calls_module._OWN)}
    for name in (*calls, *taken - {"url"}, *perdure.checkpointer.__all__, "put_messages_soon"):
        assert re.search(rf"\b{name}\b", page), name


@pytest.fixture
def _unbound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(injecting, "_bound", [])
    with InjectQ.test_mode():
        yield


def audit(checkpointer: BaseCheckpointer = Inject[BaseCheckpointer]) -> str:
    checkpointer.put_messages(ALICE, said("audit"))
    assert isinstance(checkpointer, InMemoryCheckpointer)
    return type(current_checkpointer()).__name__


@inject
async def audited(checkpointer: BaseCheckpointer = Inject[BaseCheckpointer]) -> None:
    await checkpointer.aput_messages(ALICE, said("audited"))


@pytest.mark.usefixtures("_unbound")
async def test_nodes_get_the_checkpointer_that_is_bound() -> None:
    """S2.43."""
    first, second = InMemoryCheckpointer(), InMemoryCheckpointer()
    for made in (first, second):
        bind(made)
        audit()
        await audited()
        assert current_checkpointer() is made
    for made in (first, second):
        assert len(await made.alist_messages(ALICE)) == 2


@pytest.mark.usefixtures("_unbound")
async def test_the_current_checkpointer_is_that_of_the_innermost_block() -> None:
    """S2.43: without `injectq`, or beside it."""
    with pytest.raises(InvalidInputError, match=r"bind\(checkpointer\)"):
        current_checkpointer()
    outer, inner, bound = InMemoryCheckpointer(), InMemoryCheckpointer(), InMemoryCheckpointer()
    bind(bound)

    async def task(made: BaseCheckpointer) -> None:
        with made.active() as given:
            await asyncio.sleep(0)
            assert given is made is current_checkpointer()
            audit()

    with outer.active():
        await asyncio.gather(task(inner), task(bound))
        assert current_checkpointer() is outer
        await asyncio.to_thread(audit)
    assert current_checkpointer() is bound
    assert [len(await made.alist_messages(ALICE)) for made in (outer, inner, bound)] == [1, 1, 1]


WITHOUT = """
import sys; sys.modules["injectq"] = sys.modules["opentelemetry"] = None
from perdure.checkpointer import AgentState, InMemoryCheckpointer, bind, current_checkpointer
bind(InMemoryCheckpointer())
current_checkpointer().put_state({"thread_id": "t"}, AgentState())
assert current_checkpointer().get_state({"thread_id": "t"}) == AgentState()
"""


def test_the_extras_are_not_needed() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


@pytest.fixture(scope="module")
def reader() -> InMemoryMetricReader:
    """The process has one meter provider, for good."""
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    return reader


def measured(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data: Any = reader.get_metrics_data()
    found = [each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics]
    return {each.name: list(each.data.data_points) for each in found}


async def test_calls_are_counted_and_timed_for_opentelemetry(
    reader: InMemoryMetricReader, caplog: pytest.LogCaptureFixture
) -> None:
    """S2.55."""
    one, other = InMemoryCheckpointer(), InMemoryCheckpointer()
    await one.aput_state(ALICE, AgentState())
    other.put_state(ALICE, AgentState())
    with pytest.raises(InvalidInputError):
        await one.aput_state(ALICE, {})  # type: ignore[arg-type]
    found = measured(reader)
    assert [each.value for each in found["checkpointer.put_state.calls"]] == [3]
    assert [(each.value, dict(each.attributes)) for each in found["checkpointer.put_state.errors"]] == [
        (1, {"error": "InvalidInputError"})
    ]
    (spent,) = found["checkpointer.put_state.duration"]
    assert (spent.count, 0 < spent.sum < 1000, 0.001 in spent.explicit_bounds) == (3, True, True)
    assert "created already" not in caplog.text


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python, where the runner has threads
def test_a_checkpointer_may_be_made_before_a_fork_and_used_after_it_but_not_both() -> None:
    unused, used = SQLiteCheckpointer("unused.db"), SQLiteCheckpointer("used.db")
    used.put_state(ALICE, AgentState())
    child = os.fork()
    if not child:
        code = 1
        try:
            unused.put_state(ALICE, AgentState())
            unused.put_messages_soon(ALICE, said("child"))
            unused.release()
            used.get_state(ALICE)
        except ForkedProcessError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(unused.list_messages(ALICE)) == 1
    assert used.get_state(ALICE) == AgentState()
    unused.release()
    used.release()
