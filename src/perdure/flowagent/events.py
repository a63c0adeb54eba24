"""Who wants to know of checkpoints. A handler that raises is reported, and harms nobody else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from perdure.core.errors import InvalidInputError
from perdure.core.vocabulary import suggestion
from perdure.flowagent.calling import settled

Event = Literal["checkpoint_saved", "checkpoint_restored"]
EVENTS: tuple[Event, ...] = ("checkpoint_saved", "checkpoint_restored")
Handler = TypeVar("Handler", bound=Callable[..., Any])

_log = logging.getLogger("perdure.flowagent")


class Handlers:
    """The handlers of each event, in the order they were added."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Callable[..., Any]]] = {event: [] for event in EVENTS}

    def on(self, event: str) -> Callable[[Handler], Handler]:
        """A decorator that adds a handler and returns it as it is."""
        if event not in self._handlers:
            raise InvalidInputError(
                f"there is no event {event!r}; there are {', '.join(EVENTS)}{suggestion(event, EVENTS)}"
            )

        def add(handler: Handler) -> Handler:
            self._handlers[event].append(handler)
            return handler

        return add

    async def tell(self, event: Event, *about: Any) -> None:
        """Call the handlers one after the other, those that are coroutines to their end."""
        for handler in list(self._handlers[event]):
            try:
                await settled(handler(*about))
            except Exception:
                _log.exception("a handler of %s failed: %r", event, handler)
