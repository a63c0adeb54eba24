"""The loop of an agent: ask the model, run the tools that it asks for, until it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.calls import key_digest
from perdure.core.errors import InvalidInputError, InvalidPathError, ModelError, TurnLimitError
from perdure.core.identity import check_id
from perdure.runtime.agents.calling import Caller, Face
from perdure.runtime.agents.conversation import PATH, answered_by_model, asked_by_user, calls_of, for_model
from perdure.runtime.agents.listening import LISTENER, AgentEvent, is_heard, tell
from perdure.runtime.agents.memory import Finished, Memory
from perdure.runtime.agents.model import Model, Reply, Said, ToolSchema
from perdure.runtime.agents.nested import AgentTool
from perdure.runtime.agents.tool import Tool
from perdure.runtime.calling import Asked
from perdure.runtime.models import Question, ask_model
from perdure.runtime.run import Run
from perdure.runtime.scope import SCOPE, Scope
from perdure.runtime.streaming import came_to_its_end
from perdure.runtime.triggering import tooled, turned
from perdure.runtime.work import check_plain
from perdure.runtime.writing import PathLike

MODEL = "model"  # what its calls are called in the log


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is made of."""

    name: str
    model: Model
    tools: Mapping[str, Tool]
    instructions: str | None = None
    max_turns: int = 20
    timeout: float | None = None  # seconds for one answer of the model
    settings: Mapping[str, Any] = {}
    description: str | None = None  # what a model is told that may ask this agent
    memory: Memory | None = None

    @property
    def schemas(self) -> list[ToolSchema]:
        """The tools as the model is told of them."""
        return [tool.schema for tool in self.tools.values()]


def check_in_place(spec: AgentSpec) -> None:
    """Raise `InvalidInputError` for an agent that synchronous code cannot run."""
    for tool in spec.tools.values():
        if isinstance(tool, AgentTool):
            check_in_place(tool.agent.loop.spec)
        else:
            check_plain(tool.function, f"tool {tool.name!r}")
    if not callable(getattr(spec.model, "reply_now", None)):
        raise only_awaited(spec.model)


def only_awaited(model: Model) -> InvalidInputError:
    """A model that synchronous code cannot ask."""
    return InvalidInputError(f"{model!r} can only be awaited; use perdure.Perdure, or give it a method reply_now")


def prompt_of(input: Any) -> Any:
    """The prompt that a run was given, by `agent.run` or by `store.start(name, prompt)`; raise `InvalidInputError`."""
    if input is None or input == "":
        raise InvalidInputError("an agent needs a prompt")
    return input


class AgentLoop:
    """The handler of an agent: called with a run, it brings the conversation to its next answer."""

    def __init__(self, spec: AgentSpec, face: Face = lambda run: run) -> None:
        self.spec = spec
        self._caller = Caller(spec.tools, face)
        self._told = {
            **spec.settings,
            "model": getattr(spec.model, "name", type(spec.model).__name__),
            "tools": [msgspec.to_builtins(each) for each in spec.schemas],
        }

    def __call__(self, run: Run) -> Any:
        work = run.runtime.work
        return work.drive(self.run(run)) if work.in_place else self.run(run)

    async def run(self, run: Run) -> str:
        """The text that the model comes to; raise `TurnLimitError` when it does not."""
        return await self._brought_on(run, prompt_of(run.input), PATH, None)

    async def answer_in(self, run: Run, prompt: Any, *, name: str) -> str:
        """The text that the model comes to inside the run of somebody else, where all that it does is recorded.

        Each call is a conversation of its own. Its messages are added to the state under `agents`, `name`, `messages`;
        what the model sees is put together from the log, since the state is for the code of the run to write.
        """
        given, outer = prompt_of(prompt), run.scope
        place = outer.call("agent", key_digest(check_id(name, "the name of an agent")))
        scope = Scope(run, place.id, outer)
        tokens = SCOPE.set(scope), LISTENER.set(None)  # whoever watches the run watches its own model
        try:
            return await self._brought_on(run, given, ("agents", name, PATH), [])
        finally:
            SCOPE.reset(tokens[0])
            LISTENER.reset(tokens[1])
            outer.settle()
            run.journal.forget_inside(place.id)

    async def _brought_on(self, run: Run, prompt: Any, path: PathLike, own: list[dict[str, Any]] | None) -> str:
        """Ask and call until there is an answer. `own` is a conversation that is not read from the state."""
        spec, first = self.spec, asked_by_user(prompt)
        run.scope.free = True  # what is asked for next is told by what the model answered
        try:
            await run.append(path, first)
        except InvalidPathError as exc:
            raise _no_conversation(run, path) from exc
        if own is not None:
            own.append(first)
        for turn in range(1, spec.max_turns + 1):
            message = await self._asked(run, turn, own)
            await run.append(path, message, checkpoint=turned(run))
            calls = calls_of(message)
            if not calls:
                await self._remember(run, prompt, message["content"])
                return message["content"]
            if own is None and await run.was_written():
                continue  # its tools are done with; they may have changed since, or be gone
            results = await self._caller.all(run, turn, calls)
            await run.append(path, *results, checkpoint=tooled(run, _done(results)))
            if own is not None:
                own += [message, *results]
        raise TurnLimitError(spec.name, spec.max_turns)

    async def _asked(self, run: Run, turn: int, own: list[dict[str, Any]] | None) -> dict[str, Any]:
        """The model's message of a turn, now or earlier. It is found by its turn: instructions and tools may change."""
        answer = _Answer(self.spec, run, turn)

        async def given() -> Question:
            if own is None:
                said = await self._conversation(run)
            else:
                said = for_model(own, await self._instructions(run, own[0]))
            return Question(answer.given, said, self._told)

        asked = Asked(MODEL, answer.given, (), {"turn": turn})
        message = await ask_model(run, asked, ["turn", turn], given, self.spec.timeout, checkpoint=False)
        if not answer.was_heard and message["content"]:
            tell(AgentEvent(kind="text", text=message["content"], turn=turn))
        tell(AgentEvent(kind="reply", text="", turn=turn, result=message))
        return message

    async def _conversation(self, run: Run) -> list[dict[str, Any]]:
        """What the model sees: the messages as they stand now, also what others wrote or edited meanwhile."""
        state = await run.load({}, fresh=True)
        messages = state.get(PATH, []) if isinstance(state, Mapping) else None
        if not isinstance(messages, list):
            raise _no_conversation(run, PATH)
        return for_model(messages, await self._instructions(run, prompt_of(run.input)))

    async def _instructions(self, run: Run, prompt: Any) -> str | None:
        spec = self.spec
        if spec.memory is None or spec.instructions is None:
            return spec.instructions
        return await spec.memory.instructions(run.journal.key.user, spec.instructions, prompt)

    async def _remember(self, run: Run, prompt: Any, text: str) -> None:
        if self.spec.memory is not None:
            key = run.journal.key
            await self.spec.memory.finish(Finished(
                run=run.id, agent=self.spec.name, user=key.user, thread=key.id, version=run.current.version,
                prompt=prompt, text=text,
            ))  # fmt: skip


def _no_conversation(run: Run, path: PathLike) -> InvalidInputError:
    where = f"the state of thread {run.journal.key.id!r}"
    place = path if isinstance(path, str) else ".".join(map(str, path))
    return InvalidInputError(
        f"{where} has no list {place!r}, and agents keep conversations there: make it one, or use another thread"
    )


def _done(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tools that did not fail."""
    return [each["name"] for each in results if not each.get("is_error")]


class _Answer:
    """One turn of the model."""

    def __init__(self, spec: AgentSpec, run: Run, turn: int) -> None:
        self._spec = spec
        self._run = run
        self._turn = turn
        self._stream = f"{MODEL} turn {turn}"
        self.was_heard = False  # piece by piece, by whoever watches

    def given(self, messages: Sequence[Said], /, **told: Any) -> Any:
        """Ask, and give the message."""
        return self._in_place(messages) if self._run.runtime.work.in_place else self._awaited(messages)

    async def _awaited(self, messages: Sequence[Said]) -> dict[str, Any]:
        if hasattr(self._spec.model, "stream") and (is_heard() or await came_to_its_end(self._run, self._stream)):
            return await self._streamed(messages)
        return self._message(await self._spec.model.reply(messages, **self._given()))

    def _in_place(self, messages: Sequence[Said]) -> dict[str, Any]:
        now = getattr(self._spec.model, "reply_now", None)
        if now is None:
            raise only_awaited(self._spec.model)
        return self._message(now(messages, **self._given()))

    async def _streamed(self, messages: Sequence[Said]) -> dict[str, Any]:
        """The same as it comes: every piece is recorded, and whoever watches gets it."""
        message: dict[str, Any] | None = None
        async for item in self._run.stream(self._stream, lambda: self._pieces(messages)):
            if isinstance(item, str):
                self.was_heard = True
                tell(AgentEvent(kind="text", text=item, turn=self._turn))
            else:
                message = item
        if message is None:
            raise ModelError(repr(self._spec.model), "its stream ended without a Reply")
        return message

    async def _pieces(self, messages: Sequence[Said]) -> AsyncIterator[Any]:
        model: Any = self._spec.model
        async for item in model.stream(messages, **self._given()):
            yield self._message(item) if isinstance(item, Reply) else item

    def _given(self) -> dict[str, Any]:
        return {"tools": self._spec.schemas, "settings": self._spec.settings}

    def _message(self, reply: Any) -> dict[str, Any]:
        if not isinstance(reply, Reply):
            raise ModelError(repr(self._spec.model), f"it answered {type(reply).__name__}, not a Reply")
        return answered_by_model(reply, self._turn)
