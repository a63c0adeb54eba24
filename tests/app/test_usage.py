"""What models cost, out of the log: on every storage, for both faces, for everybody and for one user."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, ScriptedModel, Triggers, sync
from perdure.core.calls import Tokens
from perdure.core.model_calls import model_name, tokens_of
from perdure.errors import InvalidFilterError, InvalidInputError
from perdure.runtime.agents.model import Reply, Usage
from perdure.testing import ManualClock
from tests.checkpoints.places import PLACES, opened

PRICES = {"big": {"input": 10, "output": "30"}, "small": {"input": 0.15, "output": 0.6, "cached": 0.05}}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Counted:
    """A model of any name that tells how many tokens each answer took."""

    def __init__(self, name: str, given: int, made: int, cached: int = 0) -> None:
        self.name = name
        self._usage = Usage(input_tokens=given, output_tokens=made, total_tokens=given + made, cached_tokens=cached)

    def reply_now(self, messages: Any, **told: Any) -> Reply:
        return Reply(text="done", usage=self._usage)

    async def reply(self, messages: Any, **told: Any) -> Reply:
        return self.reply_now(messages)


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=list(PLACES))
async def store(request: pytest.FixtureRequest, mode: str, tmp_path: Path) -> AsyncIterator[Any]:
    """Two users, two agents, two models, two days, and a fork."""
    clock = ManualClock()
    async with opened(PLACES[request.param](tmp_path), mode, clock=clock, prices=PRICES) as made:
        agents = getattr(made, "_inner", made)  # `agent` gives an object of its own in either face
        big, small = Counted("big", 1000, 100), Counted("small", 10, 2, 4)
        for name, model in (("writer", big), ("helper", small)):
            agents.agent(name, model=model)
        for name, thread, user in (("writer", "a", "ann"), ("helper", "b", "ann"), ("helper", "c", "bob")):
            await made.start(name, "hi", thread=thread, user=user)
        await made.recover()
        clock.advance(timedelta(days=1))
        await made.thread("a", user="ann").fork("@-1", to="a-2")
        await made.start("helper", "and", thread="a-2", user="ann")
        await made.recover()
        yield made


async def test_every_grouping_adds_up_to_the_same(store: Any) -> None:
    """Tokens, calls and money by model, agent, user, thread, run and day."""
    small = (24 * Decimal("0.15") - 12 * Decimal("0.15") + 12 * Decimal("0.05")) / 1_000_000
    expected = {
        "model": {"big": (1, 1000, 100), "small": (3, 30, 6)},
        "agent": {"writer": (1, 1000, 100), "helper": (3, 30, 6)},
        "user": {"ann": (3, 1020, 104), "bob": (1, 10, 2)},
        "thread": {"a": (1, 1000, 100), "b": (1, 10, 2), "c": (1, 10, 2), "a-2": (1, 10, 2)},
        "day": {"2026-01-01": (3, 1020, 104), "2026-01-02": (1, 10, 2)},
    }
    money = Decimal("0.013") + (18 * Decimal("0.15") + 12 * Decimal("0.05") + 6 * Decimal("0.6")) / 1_000_000
    assert small < money
    for by, rows in expected.items():
        report = await store.usage(by)
        assert {row.name: (row.calls, row.input_tokens, row.output_tokens) for row in report} == rows, by
        assert (report.total.calls, report.total.total_tokens, report.total.cached_tokens) == (4, 1136, 12)
        assert report.total.money == money
        assert sum((row.money for row in report), Decimal(0)) == money
        assert (report.unpriced, report.skipped, report.pruned) == ((), (), 0)
    runs = await store.usage("run")
    assert sorted(row.thread for row in runs) == ["a", "a-2", "b", "c"]
    assert all(str(row.name).startswith("run_") for row in runs)


async def test_a_user_sees_what_is_theirs_and_a_time_what_was_then(store: Any) -> None:
    assert [row.name for row in await store.scope(user="bob").usage("user")] == ["bob"]
    assert (await store.usage(user="ann")).total.calls == 3
    later = await store.usage("thread", since=BEGIN + timedelta(hours=12))
    assert [row.name for row in later] == ["a-2"]
    assert (await store.usage(until=BEGIN + timedelta(hours=12))).total.calls == 3
    steps: list[tuple[int, int]] = []
    await store.usage(progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


async def test_a_price_that_is_missing_is_named_and_never_counts_as_nothing() -> None:
    async with Perdure.open("memory://") as store:
        for name, model in (("a", Counted("big", 10, 1)), ("b", ScriptedModel(["hi"]))):
            await store.agent(name, model=model).run("hi", thread=name)
        without = await store.usage()
        assert (without.total.money, without.unpriced) == (None, ("ScriptedModel", "big"))
        free = {"input": 0, "output": 0}
        priced = await store.usage(prices={**PRICES, "ScriptedModel": free})
        assert (priced.unpriced, priced.total.uncounted, priced.total.money) == ((), 1, None)
        assert priced.total.money_at_least == Decimal("0.00013")
        assert {row.name: row.money for row in priced} == {"big": Decimal("0.00013"), "ScriptedModel": None}
        nothing = await store.usage(since=datetime.now(UTC) + timedelta(days=1))
        assert (len(nothing), nothing.total.money) == (0, Decimal(0))


async def test_retries_of_steps_and_runs_are_counted_where_they_happened() -> None:
    tries = iter(range(10))

    async def shaky() -> int:
        if (n := next(tries)) in (0, 1, 3):
            raise ValueError(n)
        return n

    async with Perdure.open("memory://") as store:

        @store.handler("work", retry=3)
        async def work(run: Any) -> None:
            await run.options(retry=3).step("shaky", shaky)  # two retries
            await run.step("last", shaky)  # fails, and so does the run, once

        await store.start("work", thread="t")
        with pytest.raises(ValueError, match="3"):
            await store.resume("t")
        await store.resume("t")
        assert [(row.name, row.retries, row.calls) for row in await store.usage("agent")] == [("work", 3, 0)]
        assert ((await store.usage("model")).total.retries, len(await store.usage("model"))) == (3, 0)


async def test_answers_after_a_request_that_was_written_before_them_count_once() -> None:
    async with Perdure.open("memory://", checkpoints=Triggers(before_llm=True)) as store:
        async with store.thread("t").run() as run:
            answer = {"model": "big", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
            for number in range(3):
                await run.model(lambda messages: answer, [number])
        report = await store.usage(prices=PRICES)
        assert [(row.name, row.calls, row.input_tokens, row.money) for row in report] == [
            ("big", 3, 21, Decimal("0.00048")),
        ]


async def test_a_damaged_thread_is_left_out_and_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Perdure.open(f"sqlite:///{path}") as store:
        for thread in ("good", "bad"):
            async with store.thread(thread).run() as run:
                await run.model(lambda messages: {"usage": {"input_tokens": 5, "output_tokens": 1}}, ["hi"])
    with closing(sqlite3.connect(path)) as db, db:
        newest = "SELECT max(rowid) FROM perdure_entry WHERE kind = 'model.called'"
        db.execute(f"UPDATE perdure_entry SET payload = x'00ff' WHERE rowid = ({newest})")
    async with Perdure.open(f"sqlite:///{path}") as store:
        report = await store.usage("thread")
        assert [row.name for row in report] == ["good"]
        assert [each.thread_id for each in report.skipped] == ["bad"]


def test_providers_tell_of_tokens_in_their_own_words() -> None:
    openai = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    responses = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    anthropic = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 4}
    for usage in (openai, responses, anthropic):
        assert tokens_of({"usage": usage}) == Tokens(9, 2, 4)
    assert tokens_of(Reply(usage=Usage(input_tokens=9, output_tokens=2, cached_tokens=4))) == Tokens(9, 2, 4)
    for usage in (None, {}, "9", {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": 1 << 60}, [1]):
        assert tokens_of({"usage": usage}) is None
    assert model_name({"model": "b"}, {"model": "a"}, "c") == "a"
    assert (model_name({"model": "b"}, {}, "c"), model_name("text", {"model": 7}, "c")) == ("b", "c")


@pytest.mark.parametrize(
    ("prices", "text"),
    [
        (["big"], "prices must be a mapping"),
        ({7: {}}, "prices must name models, not 7"),
        ({"big": 3}, "prices['big'] must be"),
        ({"big": {"input": 1}}, "prices['big'] has no 'output'"),
        ({"big": {"input": 1, "outptu": 1}}, "unknown key 'outptu'; did you mean 'output'?"),
        *(({"big": {"input": each, "output": 1}}, "prices['big']['input'] must be a number from 0 on")
          for each in (-1, "x", float("nan"), float("inf"), None, True)),
    ],
)  # fmt: skip
async def test_prices_that_make_no_sense_are_refused(prices: Any, text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Perdure.open("memory://", prices=prices)
    assert text in str(refused.value)


async def test_a_table_of_the_store_counts_unless_another_is_given() -> None:
    with sync.Perdure.open("memory://", prices=PRICES) as store:
        store.agent("a", model=Counted("openai:big", 100, 0)).run("hi", thread="t")  # without the provider it is "big"
        assert store.usage().total.money == Decimal("0.001")
        assert store.usage(prices={"openai:big": {"input": 1, "output": 1}}).total.money == Decimal("0.0001")
        with pytest.raises(InvalidFilterError, match="did you mean 'model'"):
            store.usage("modle")  # type: ignore[arg-type]


async def test_a_sum_over_random_logs_is_what_was_done() -> None:
    """Whatever the models, users and forks, the total is the sum of what was asked."""
    for seed in range(5):
        chance, spent = random.Random(seed), 0
        async with Perdure.open("memory://") as store:
            threads = [store.thread("t0")]
            for number in range(1, 12):
                where = chance.choice(threads)
                async with where.run() as run:
                    tokens = {"input_tokens": chance.randrange(50), "output_tokens": chance.randrange(50)}
                    await run.model(lambda messages, told=tokens: {"usage": told}, [number])
                    await run.save({"n": number})
                    spent += sum(tokens.values())
                if chance.random() < 0.4:
                    threads.append(await where.fork("@-1", to=f"t{number}"))
            assert (await store.usage("thread")).total.total_tokens == spent, seed
