"""Hector's page: its settings, word by word, and an agent that is killed with SIGKILL under them."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from perdure import Config, Perdure, RecoveryPolicy, Triggers
from perdure.app.config.hector import read_hector
from perdure.app.config.places import parse_page
from perdure.app.config.reading import Section
from tests.seeds.hector_stage import Agent, blocks, config_in, process, words

STRATEGIES = "storage:\n  checkpoint:\n    strategy: hybrid\n    after_tools: true\n    before_llm: true\n"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


async def started(config: Path) -> None:
    async with Perdure.from_config(config) as store:
        await store.start("research", "checkpoints", thread="t")


async def looked_at(config: Path) -> tuple[Any, list[str | None], list[Any]]:
    """The newest run, the notes of its points (oldest first), and the messages."""
    async with Perdure.from_config(config) as store:
        thread = store.thread("t")
        notes = [point.note for point in (await thread.history())[::-1]]
        return (await store.runs())[0], notes, await thread.messages()


def test_every_block_of_the_page_is_understood() -> None:
    """S4.11, S4.12, S4.13, S4.18."""
    (found,) = [Config.parse(block, environment={}) for block in blocks()]
    assert (found.triggers, found.recovery) == (Triggers(strategy="event"), RecoveryPolicy(auto_resume=True))


def test_every_word_of_the_page_is_a_setting_or_a_value() -> None:
    """S4.11, S4.13–S4.17."""
    page, tree = parse_page("config.yaml", b"", {})
    root = Section(page, tree)
    read_hector(root)
    keys = {key.rpartition(".")[2] for key in root.asked}
    named = words()
    assert len(named) == 7
    assert [word for word in named if word not in keys] == ["event", "hybrid"]  # interval is both
    for strategy in ("event", "interval", "hybrid"):
        block = blocks()[0].replace("strategy: event", f"strategy: {strategy}")
        assert Config.parse(block, environment={}).triggers.strategy == strategy


async def test_the_block_of_the_page_runs_an_agent(tmp_path: Path, agent: Agent) -> None:
    """S4.11, S4.13: checkpoints after every turn."""
    config = config_in(tmp_path, blocks()[0])
    await started(config)
    assert process(config, tmp_path) == 0
    run, notes, _ = await looked_at(config)
    assert (run.status, run.result, notes) == ("finished", "answer to sum up", ["after turn 1", "after turn 2"])


async def test_after_a_crash_it_goes_on_exactly_where_it_was(tmp_path: Path, agent: Agent) -> None:
    """S4.1, S4.6–S4.8, S4.16, S4.18: neither the plan nor the long tool is done again."""
    config = config_in(tmp_path, STRATEGIES)
    await started(config)
    agent.dies_at("model sum up")
    assert process(config, tmp_path) == -signal.SIGKILL
    assert process(config, tmp_path) == 0
    assert agent.did() == ["model plan", "scrape", "model sum up", "model sum up"]
    run, notes, messages = await looked_at(config)
    assert (run.status, run.result) == ("finished", "answer to sum up")
    assert [each["role"] for each in messages] == ["user", "tool"]
    assert notes == [
        "before turn 1", "after turn 1", "after tool scrape", "before turn 2", "after turn 2", "at the end",
    ]  # fmt: skip


async def test_the_prompt_of_a_call_that_crashed_is_there_to_read(tmp_path: Path, agent: Agent) -> None:
    """S4.4, S4.17: and the state at that moment."""
    config = config_in(tmp_path, STRATEGIES)
    await started(config)
    agent.dies_at("model sum up")
    assert process(config, tmp_path) == -signal.SIGKILL
    async with Perdure.from_config(config) as store:
        thread = store.thread("t")
        (point, *_) = await thread.history()
        seen = await thread.seen(point)
        assert (point.note, seen.settings) == ("before turn 2", {"temperature": 0.1})
        assert seen.messages == ["sum up", "page by answer to plan"]
        assert [each["role"] for each in (await thread.load(point))["messages"]] == ["user", "tool"]


async def test_a_tool_that_was_cut_off_is_asked_about_not_run_again(tmp_path: Path, agent: Agent) -> None:
    """S4.16: killed inside the tool, before its result: a person is asked, with a checkpoint."""
    config = config_in(tmp_path, STRATEGIES)
    await started(config)
    agent.dies_at("scrape")
    assert process(config, tmp_path) == -signal.SIGKILL
    assert process(config, tmp_path) == 0
    assert agent.did() == ["model plan", "scrape"]
    run, notes, _ = await looked_at(config)
    assert run.status == "input_required"
    assert str(notes[-1]).startswith("unverified: scrape may have run")


@pytest.mark.parametrize("backend", ["postgres", "mariadb"])
async def test_checkpoints_are_stored_in_the_sessions_backend(
    backend: str, tmp_path: Path, agent: Agent, request: pytest.FixtureRequest
) -> None:
    """S4.27, S4.28, S4.29, S4.31: another process on the same server finds everything."""
    config = config_in(tmp_path, STRATEGIES, request.getfixturevalue(backend))
    await started(config)
    agent.dies_at("model sum up")
    assert process(config, tmp_path) == -signal.SIGKILL
    async with Perdure.from_config(config) as store:
        agent.register(store)
        assert (await store.resume("t", take_over=True)).result == "answer to sum up"
    assert agent.did().count("scrape") == 1
    assert (await looked_at(config))[1][-1] == "at the end"


async def test_in_memory_nothing_is_left_after_a_restart(tmp_path: Path) -> None:
    """S4.30."""
    config = config_in(tmp_path, blocks()[0], "{backend: inmemory}")
    await started(config)
    async with Perdure.from_config(config) as store:
        assert await store.threads() == []
