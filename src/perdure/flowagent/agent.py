"""Agents with a status, fields to collect and a history, which can be saved and restored at any point."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from perdure.app.clock import SystemRandomness
from perdure.core.errors import InvalidInputError
from perdure.core.message import Message
from perdure.flowagent.binding import binding_of
from perdure.flowagent.calling import settled
from perdure.flowagent.capture import draft_of
from perdure.flowagent.fields import check_field, field_named, name_of, question_of

if TYPE_CHECKING:
    from perdure.flowagent.manager import CheckpointManager

INITIALIZING, WAITING_FOR_INPUT, WAITING_FOR_APPROVAL = "INITIALIZING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL"
RUNNING, PAUSED, ERROR, COMPLETED, CANCELLED = "RUNNING", "PAUSED", "ERROR", "COMPLETED", "CANCELLED"
FINISHED = (COMPLETED, CANCELLED)

_log = logging.getLogger("perdure.flowagent")


class StandardAgent:
    """An agent that answers messages by the hook of its status: `on_running`, `on_waiting_for_input` and so on.

    `status` is text and may be set to any; a status of your own needs its hook, `on_` and the status in lower case.
    Everything the agent holds is saved with it, and an attribute that is no data, such as a connection, is left out:
    a restored agent is made without `__init__`, so make it again in `on_restored`. Without an `agent_id` the agent gets
    a new one.
    """

    required_fields: Sequence[Any] = ()  # names, or dicts with a name; a class may set its own
    checkpoint_manager: CheckpointManager | None = None

    def __init__(
        self,
        agent_id: str | None = None,
        user_id: str = "",
        *,
        status: str = INITIALIZING,
        required_fields: Iterable[Any] | None = None,
        collected_fields: Mapping[str, Any] | None = None,
        context_summary: str = "",
        checkpoint_manager: CheckpointManager | None = None,
    ) -> None:
        self.agent_id = SystemRandomness.bytes(16).hex() if agent_id is None else agent_id
        self.user_id = user_id
        self._status = _text(status)
        self.required_fields = list(type(self).required_fields if required_fields is None else required_fields)
        self.collected_fields: dict[str, Any] = dict(collected_fields or {})
        self.context_summary = context_summary
        self.history: list[Any] = []
        self.checkpoint_manager = checkpoint_manager

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agent_id={self.agent_id!r}, user_id={self.user_id!r}, status={self.status!r})"

    @property
    def status(self) -> str:
        """What the agent is doing."""
        return self._status

    @status.setter
    def status(self, status: str) -> None:
        given = _text(status)
        if given == self._status:
            return
        self._status = given
        binding = binding_of(self)
        if binding.watcher is not None:
            binding.passed.append(draft_of(self))  # nobody can wait here: it is saved as soon as somebody can

    @property
    def missing_fields(self) -> list[str]:
        """The names of required fields that were not collected yet, in order."""
        names = map(name_of, self.required_fields)
        return [name for name in names if self.collected_fields.get(name) is None]

    def can_handle(self, msg: Message) -> bool:
        """Whether this agent takes a new conversation that begins with a message; may be a coroutine.

        An `Orchestrator` asks its agents in their order. Override it where agents share the work.
        """
        return True

    def has_taken(self, msg: Message) -> bool:
        """Whether the agent took a message of this id in before."""
        return msg.id is not None and self._place_of(msg) is not None

    async def reply(self, msg: Message | str | Mapping[str, Any]) -> Any:
        """Take a message into the history, let the hook of the status answer it, and return that answer.

        An answer that is text or a message joins the history. When the hook raises, the status becomes "ERROR". A
        message with an `id` is taken in once: sent again, it gets the answer that the history has, or the hook that
        did not come to an end runs again.
        """
        message = as_message(msg)
        if self.has_taken(message):
            known = self._answer_to(message)
            if known is not None:
                return known
        else:
            self.history.append(message)
        try:
            answer = await self._respond(message)
        except Exception:
            self.status = ERROR
            await self._changed_by_an_error()
            raise
        if isinstance(answer, str | Message):
            self.history.append(as_message(answer, role="assistant"))
        await self._changed()
        return answer

    async def on_initializing(self, msg: Message) -> Any:
        """A new agent is spoken to: collect what the message tells, and start or ask for what is missing."""
        return await self._collect(msg)

    async def on_waiting_for_input(self, msg: Message) -> Any:
        """Collect fields from the message; start when none is missing, else ask for the next."""
        return await self._collect(msg)

    async def on_running(self, msg: Message) -> Any:
        """Do the work: the hook to write."""

    async def on_waiting_for_approval(self, msg: Message) -> Any:
        """A message while somebody has to approve."""

    async def on_paused(self, msg: Message) -> Any:
        """A message wakes a paused agent: it goes on."""
        return await self._go_on(msg, RUNNING)

    async def on_error(self, msg: Message) -> Any:
        """A message after an error: it tries again."""
        return await self._go_on(msg, RUNNING)

    async def on_completed(self, msg: Message) -> Any:
        """A message after the end."""

    async def on_cancelled(self, msg: Message) -> Any:
        """A message after it was cancelled."""

    async def on_restored(self) -> None:
        """The agent was restored: make again what a checkpoint cannot keep."""

    async def extract_fields(self, msg: Message) -> dict[str, Any]:
        """The fields a message tells: those of a dict, or a text for the one that was asked for."""
        if isinstance(msg.content, Mapping):
            return dict(msg.content)
        asked = self.missing_fields if self.status == WAITING_FOR_INPUT else []
        return {asked[0]: msg.content} if asked else {}

    async def validate_field(self, name: str, value: Any) -> Any:
        """The value of a field as it is kept; raise `ValueError` with the words that a person should read.

        By default the field itself says what it takes: `type`, `choices`, `pattern`, `min` and `max`.
        """
        field = field_named(self.required_fields, name)
        return value if field is None or value is None else check_field(field, value)

    async def _collect(self, msg: Message) -> Any:
        problems: list[str] = []
        for name, value in (await settled(self.extract_fields(msg))).items():
            try:
                self.collected_fields[name] = await settled(self.validate_field(name, value))
            except InvalidInputError:
                raise
            except ValueError as exc:
                problems.append(str(exc))
        missing = self.missing_fields
        if not missing and not problems:
            return await self._go_on(msg, RUNNING)
        self.status = WAITING_FOR_INPUT
        asked = question_of(field_named(self.required_fields, missing[0])) if missing else ""
        return " ".join(filter(None, [*problems, asked]))

    def _place_of(self, msg: Message) -> int | None:
        places = (at for at, each in enumerate(self.history) if isinstance(each, Message) and each.id == msg.id)
        return next(places, None)

    def _answer_to(self, msg: Message) -> Any:
        """What the agent answered to a message, as far as the history has it."""
        for each in self.history[(self._place_of(msg) or 0) + 1 :]:
            if isinstance(each, Message) and each.role == "user":
                return None
            if isinstance(each, Message) and each.role == "assistant":
                return each.content if isinstance(each.content, str) else each
        return None

    async def _go_on(self, msg: Message, status: str) -> Any:
        self.status = status
        return await self._respond(msg)

    async def _respond(self, message: Message) -> Any:
        hook = getattr(self, f"on_{self.status.lower()}", None)
        if hook is None:
            raise InvalidInputError(
                f"{self!r} has no hook for its status; add `async def on_{self.status.lower()}(self, msg)` "
                f"to {type(self).__name__}"
            )
        await self._changed()
        return await settled(hook(message))

    async def _changed(self) -> None:
        """Tell who watches that there may be something to save."""
        watcher = binding_of(self).watcher
        if watcher is not None:
            await watcher(self)

    async def _changed_by_an_error(self) -> None:
        try:
            await self._changed()
        except Exception:  # the error of the hook must not be lost behind this one
            _log.exception("%r failed, and that could not be saved", self)

    if not TYPE_CHECKING:  # a checker would take any misspelt name for an attribute

        def __getattr__(self, name: str) -> Any:
            advice = "" if name.startswith("__") else _advice(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")


def as_message(given: object, role: str = "user") -> Message:
    """The message that was given, as one or as its content."""
    return given if isinstance(given, Message) else Message(role=role, content=given)


def _advice(agent: Any, name: str) -> str:
    if not binding_of(agent).restored:
        return ""
    return f"; a restored agent is made without __init__: set {name!r} in on_restored(), or name a factory"


def _text(status: object) -> str:
    text = status.value if isinstance(status, Enum) else status
    if type(text) is not str or not text:
        raise InvalidInputError(f"the status of an agent must be a str, not {status!r}")
    return text


def check_agent(agent: object) -> None:
    """Raise `InvalidInputError` for what is no agent."""
    if not isinstance(agent, StandardAgent):
        raise InvalidInputError(f"an agent must be a StandardAgent, not {agent!r}")
