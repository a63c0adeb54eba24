"""How a node gets hold of the checkpointer without being handed it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from perdure.core.errors import InvalidInputError

if TYPE_CHECKING:
    from perdure.checkpointer.base import BaseCheckpointer

_current: ContextVar[BaseCheckpointer | None] = ContextVar("perdure_checkpointer", default=None)
_bound: list[BaseCheckpointer] = []


def bind(checkpointer: BaseCheckpointer) -> None:
    """Make a checkpointer the current one wherever no `active()` block says otherwise.

    With `injectq`, `Inject[BaseCheckpointer]` gives the current one from then on.
    """
    from perdure.checkpointer.base import BaseCheckpointer

    _bound[:] = [checkpointer]
    try:
        from injectq import InjectQ
    except ImportError:
        return  # `current_checkpointer()` knows it all the same
    InjectQ.get_instance().bind_instance(BaseCheckpointer, Current(), allow_concrete=False)


class Current:
    """Whichever checkpointer is current, asked at every use.

    What `injectq` has resolved once it never asks for again: a node would write to the checkpointer of the first block
    that it ran in, whoever's that was.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(current_checkpointer(), name)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(current_checkpointer())


@contextmanager
def active(checkpointer: BaseCheckpointer) -> Generator[BaseCheckpointer]:
    """Make a checkpointer the current one inside a block."""
    token = _current.set(checkpointer)
    try:
        yield checkpointer
    finally:
        _current.reset(token)


def current_checkpointer() -> BaseCheckpointer:
    """The checkpointer of the innermost `with checkpointer.active():`, else the one that was bound."""
    found = _current.get() or (_bound[0] if _bound else None)
    if found is None:
        raise InvalidInputError("there is no current checkpointer: call bind(checkpointer), or use its active() block")
    return found
