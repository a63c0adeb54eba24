"""Where messages that people make get their ids: core has no randomness of its own."""

from __future__ import annotations

from perdure.app.clock import SystemRandomness
from perdure.core import message
from perdure.core.message import Message

_ID_BYTES = 12


def new_message_id() -> str:
    """An id that no other message has."""
    return "msg_" + SystemRandomness().bytes(_ID_BYTES).hex()


message.name_with(new_message_id)

__all__ = ["Message", "new_message_id"]
