"""What a model saw is kept, and costs what is new."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.errors import NotFoundError

Messages = list[dict[str, str]]


class Model:
    """Answers with a number that counts its calls, and a filling."""

    def __init__(self, filling: int = 0) -> None:
        self.calls = 0
        self._filling = "w" * filling

    async def __call__(self, messages: Messages, **settings: Any) -> dict[str, str]:
        self.calls += 1
        return {"role": "assistant", "content": f"answer {self.calls} {self._filling}"}


def asked(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_an_answer_is_recorded_and_not_asked_for_again() -> None:
    model = Model()
    async with Perdure.open("memory://") as store:
        for _ in range(2):
            async with store.thread("t").run(key="k") as run:
                answer = await run.model(model, [asked("hi")], temperature=0.2)
        assert (answer["content"], model.calls) == ("answer 1 ", 1)


async def test_seen_gives_exactly_what_the_model_saw_at_every_call() -> None:
    messages: Messages = [{"role": "system", "content": "be kind"}]
    given: list[tuple[int, Messages]] = []
    async with Perdure.open("memory://") as store:
        thread = store.thread("t")
        async with thread.run() as run:
            for turn in range(5):
                messages.append(asked(f"question {turn}"))
                answer = await run.model(Model(), messages, temperature=turn)
                given.append(((await thread.info()).version, list(messages)))
                messages.append(answer)
        for turn, (version, saw) in enumerate(given):
            seen = await thread.seen(f"@{version}")
            assert (seen.messages, seen.settings, seen.version) == (saw, {"temperature": turn}, version)


async def test_a_request_that_was_cut_or_edited_in_the_middle_is_seen_as_it_was() -> None:
    messages = [asked(f"message {number}") for number in range(20)]
    async with Perdure.open("memory://") as store:
        thread = store.thread("t")
        async with thread.run() as run:
            await run.model(Model(), messages)
            messages[3] = asked("edited")
            await run.model(Model(), messages)
            await run.model(Model(), [asked("a summary"), *messages[15:]])
            assert (await thread.seen("@5")).messages == messages
        assert (await thread.seen()).messages == [asked("a summary"), *messages[15:]]


async def test_a_hundred_calls_of_a_long_conversation_stay_linear(tmp_path: Path) -> None:
    model, messages = Model(filling=4000), list[dict[str, str]]()
    path = tmp_path / "long.db"
    async with Perdure.open(f"sqlite:///{path}") as store:
        async with store.thread("t").run() as run:
            for turn in range(100):
                messages.append(asked(f"question {turn} " + "t" * 4000))
                messages.append(await run.model(model, messages))
        assert (await store.thread("t").seen()).messages == messages[:-1]
    assert path.stat().st_size < 2_500_000  # 800,000 characters, about 200,000 tokens


async def test_what_a_model_saw_before_a_crash_is_seen_after_it() -> None:
    async with Perdure.open("memory://") as store:
        thread = store.thread("t")
        with suppress(RuntimeError):
            async with thread.run(key="k") as run:
                await run.model(Model(), [asked("one")])
                raise RuntimeError("out of memory")
        async with thread.run(key="k") as run:
            answer = await run.model(Model(), [asked("one")])
            await run.model(Model(), [asked("one"), answer, asked("two")])
        assert (await thread.seen()).messages == [asked("one"), answer, asked("two")]


async def test_a_thread_that_asked_no_model_has_nothing_to_show() -> None:
    async with Perdure.open("memory://") as store:
        await store.thread("t").save({})
        with pytest.raises(NotFoundError, match="a call of a model"):
            await store.thread("t").seen()


async def test_a_step_that_is_tried_again_gets_the_answer_that_is_recorded() -> None:
    model, tries = Model(), list[str]()
    async with Perdure.open("memory://") as store, store.thread("t").run() as run:

        async def plan() -> str:
            answer = await run.model(model, [asked("plan")])
            tries.append(answer["content"])
            if len(tries) == 1:
                raise ValueError("once")
            return answer["content"]

        assert await run.options(retry=2).step("plan", plan) == "answer 1 "
        assert (tries, model.calls) == (["answer 1 "] * 2, 1)


async def test_a_conversation_of_many_runs_stays_linear_and_is_seen_as_it_was(tmp_path: Path) -> None:
    model, path = Model(filling=2000), tmp_path / "runs.db"
    messages: Messages = []
    async with Perdure.open(f"sqlite:///{path}") as store:
        thread = store.thread("t")
        for turn in range(60):
            messages.append(asked(f"question {turn} " + "t" * 2000))
            async with thread.run() as run:
                messages.append(await run.model(model, messages))
        assert (await thread.seen()).messages == messages[:-1]
        fork = await thread.fork(to="f")
        async with fork.run() as run:
            await run.model(model, messages)
        assert ((await fork.seen()).messages, (await thread.seen()).messages) == (messages, messages[:-1])
    assert path.stat().st_size < 1_200_000  # 240,000 characters; each run by itself would keep 7,000,000
