"""An agent as its users hold it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from perdure.app.handle import traces_of
from perdure.app.running import Running, handle_of, key_in
from perdure.core.approval import misspelt
from perdure.core.errors import InvalidInputError
from perdure.core.identity import ThreadKey, check_id, check_label
from perdure.core.runs import FINISHED, PAUSED
from perdure.runtime.agents.calling import Face
from perdure.runtime.agents.conversation import PATH
from perdure.runtime.agents.defaults import AgentDefaults
from perdure.runtime.agents.listening import LISTENER, AgentEvent
from perdure.runtime.agents.loop import AgentLoop, AgentSpec, prompt_of
from perdure.runtime.agents.model import Model
from perdure.runtime.agents.nested import Askable, tools_and_agents
from perdure.runtime.decisions import Pause
from perdure.runtime.infos import RunInfo
from perdure.runtime.opening import Wanted
from perdure.runtime.options import options_of

if TYPE_CHECKING:
    from perdure.app.parts import Parts
    from perdure.app.thread import Thread
    from perdure.app.users import UserArg
    from perdure.runtime.agents.memory import Memory
    from perdure.runtime.options import Retry
    from perdure.runtime.run import Run
    from perdure.runtime.starting import Ticket


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run of an agent came. True when it came to its answer; as text, the answer."""

    text: str  # "" as long as there is no answer
    status: str  # "finished", "input_required" …
    messages: list[Any]  # the whole conversation of the thread
    pauses: list[Pause]  # what it waits for
    run: RunInfo

    def __bool__(self) -> bool:
        return self.status == FINISHED

    def __str__(self) -> str:
        return self.text


def spec_of(
    name: str,
    *,
    model: Model | None,
    tools: Sequence[Callable[..., Any] | Askable],
    instructions: str | None,
    max_turns: int | None,
    timeout: float | timedelta | None,
    settings: Mapping[str, Any] | None,
    defaults: AgentDefaults | None = None,
    description: str | None = None,
    memory: Memory | None = None,
) -> AgentSpec:
    """What an agent is made of; raise `InvalidInputError` for what cannot be."""
    defaults = defaults or AgentDefaults()
    model = defaults.model_for(name) if model is None else model
    instructions = defaults.instructions if instructions is None else instructions
    max_turns = defaults.max_turns if max_turns is None else max_turns
    settings = {**defaults.settings, **(settings or {})}
    if not callable(getattr(model, "reply", None)):
        raise InvalidInputError(f"model must have a method reply(messages, *, tools, settings), {model!r} has none")
    if type(max_turns) is not int or max_turns < 1:
        raise InvalidInputError(f"max_turns must be an int from 1 on, not {max_turns!r}")
    return AgentSpec(
        name=check_id(name, "the name of an agent"), model=model, tools=tools_and_agents(tools),
        instructions=instructions, max_turns=max_turns, timeout=options_of(timeout=timeout).timeout, settings=settings,
        description=check_label(description, "the description"), memory=memory,
    )  # fmt: skip


class Agent:
    """A model with tools and a conversation per thread. Made by `store.agent(…)`."""

    def __init__(
        self, store: Running, parts: Parts, spec: AgentSpec, retry: Retry | int | None, face: Face | None = None
    ) -> None:
        self._store = store
        self._parts = parts
        self.spec = spec
        self.loop = AgentLoop(spec, face) if face else AgentLoop(spec)
        store.handler(spec.name, retry=retry)(self.loop)
        self._tell_of_misspelt()

    def _tell_of_misspelt(self) -> None:
        """A name with a typo in the operator's list would let a tool run that somebody meant to be asked about."""
        runtime = self._parts.running.runtime
        for name, meant in misspelt(runtime.approvals, self.spec.tools).items():
            told = {"agent": self.name, "name": name, "did_you_mean": meant}
            runtime.telemetry.log("warning", "a tool that needs approval, or is trusted, is not there", **told)

    @property
    def name(self) -> str:
        """The name that its runs are found by."""
        return self.spec.name

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    async def run(
        self, prompt: Any, *, thread: Thread | str, user: UserArg = None, key: str | None = None
    ) -> AgentResult:
        """Go on with the conversation of a thread here, and return the answer, or what the run waits for.

        The same prompt again goes on with a run that was cut off or waits; another one raises `UnfinishedRunError`
        while one waits. The same `key` is the same run, also when it is over, and raises `KeyReusedError` with another
        prompt. What the model raises is raised here too, and the run stays to be resumed.
        """
        return await self._brought_on(prompt, thread, user, key)

    async def resume(self, thread: Thread | str, *, user: UserArg = None) -> AgentResult:
        """Go on with the unfinished run of a thread here, such as after a decision."""
        info = await self._store.resume(thread, user=user)
        return await self._result(await self._key(thread, user), info.id)

    async def answer_in(self, run: Run, prompt: Any, *, name: str) -> str:
        """Answer a prompt inside the run of somebody else, such as that of a handler or of a workflow.

        Its model's answers, tools and approvals are recorded there, and asked about on that thread. Its messages are
        added to the state under `agents`, `name`, `messages`. Each call is a conversation of its own.
        """
        return await self.loop.answer_in(run, prompt, name=name)

    async def start(
        self,
        prompt: Any,
        *,
        thread: Thread | str,
        user: UserArg = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Ticket:
        """Record that the agent is to be run; a worker, `recover()` or `resume()` runs it. Its result is the text."""
        prompt_of(prompt)
        return await self._store.start(self.name, prompt, thread=thread, user=user, key=key, at=at)

    async def stream(
        self, prompt: Any, *, thread: Thread | str, user: UserArg = None, key: str | None = None
    ) -> AsyncIterator[AgentEvent]:
        """Like `run`, telling what happens as it happens; the last event has the `AgentResult`.

        Where the model streams, the pieces of its text are recorded as they come, and `thread.streamed()` reads them
        from outside. Whoever stops listening lets go of the run: a worker or the next call goes on with it.
        """
        events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        task = asyncio.create_task(self._heard(events, prompt, thread, user, key))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield AgentEvent(kind="result", result=await task)
        finally:
            if not task.done():  # nobody listens any more
                task.cancel()
                await asyncio.wait([task])

    async def _heard(self, events: asyncio.Queue[AgentEvent | None], *asked: Any) -> AgentResult:
        LISTENER.set(events.put_nowait)
        try:
            return await self._brought_on(*asked)
        finally:
            events.put_nowait(None)

    async def _brought_on(self, input: Any, thread: Thread | str, user: UserArg, key: str | None) -> AgentResult:
        prompt_of(input)
        running = self._parts.running
        where = await self._key(thread, user)
        actor, patch = traces_of(handle_of(self._store, thread, user))
        ask = Wanted(
            name=self.name, input=running.encoded(input), key=None if key is None else check_id(key, "the key"),
            actor=actor, patch=replace(patch, agent=self.name),
        )  # fmt: skip
        run = await running.executor.run(where, ask, running.runtime.leases.ttl)
        return await self._result(where, run.id)

    async def _key(self, thread: Thread | str, user: UserArg) -> ThreadKey:
        return await key_in(self._store, thread, user)

    async def _result(self, key: ThreadKey, run: str) -> AgentResult:
        running, shown = self._parts.running, self._parts.users.shown
        info = await running.info(key, shown, run)
        row = await self._parts.storage.thread(key) if info.status == PAUSED else None
        pauses = [] if row is None else await running.answers.of(row, shown(key.user))
        text = info.result if info.status == FINISHED and isinstance(info.result, str) else ""
        messages = await self._messages(key)
        return AgentResult(text=text, status=info.status, messages=messages, pauses=pauses, run=info)

    async def _messages(self, key: ThreadKey) -> list[Any]:
        document = (await self._parts.engine.head(key)).document
        state: Any = document.value()
        return list(state.get(PATH, [])) if isinstance(state, dict) else []
