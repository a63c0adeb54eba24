"""W: one thread, one message of about 1.5 KB a turn, a context of 4 KB with two keys changed a turn.

Only the standard library: the peers import this file in environments of their own, and get the same bytes.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, field
from typing import Any, Literal

Variant = Literal["words", "random"]
VARIANTS: tuple[Variant, ...] = ("words", "random")

SEED = 20260101
CONTENT_BYTES = 1400
TEXT_BYTES = 1500  # of a conversation's messages
CONTEXT_KEYS = 40
VALUE_BYTES = 88
CHANGED_KEYS = 2

_TEXT = (
    "the of and to in that it is was for on are with as his they at be this from have or by one had not but what all "
    "were when we there can an your which their said if do will each about how up out them then she many some so these "
    "would other into has more her two like him see time could no make than first been its who now people my made over "
    "did down only way find use may water long little very after words called just where most know deploy service "
    "customer invoice refund order ticket agent model tool result error retry timeout database region latency request"
)
_WORDS = tuple(_TEXT.split())
_LETTERS = string.ascii_letters + string.digits + "+/"


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn adds: a message, and two values of the context."""

    message: dict[str, Any]
    changed: dict[str, str]


def turns(variant: Variant, count: int, seed: int = SEED) -> list[Turn]:
    """The same turns for the same arguments, in every process."""
    rng = random.Random(f"{seed} {variant}")
    return [Turn(_message(rng, variant, at), _changes(rng, variant)) for at in range(count)]


def opening_context(variant: Variant, seed: int = SEED) -> dict[str, str]:
    """The context before the first turn."""
    rng = random.Random(f"{seed} {variant} context")
    return {f"fact_{at:02}": text(rng, variant, VALUE_BYTES) for at in range(CONTEXT_KEYS)}


def text(rng: random.Random, variant: Variant, size: int) -> str:
    """Text of `size` characters: words that repeat, or letters that do not."""
    if variant == "random":
        return "".join(rng.choices(_LETTERS, k=size))
    return " ".join(rng.choices(_WORDS, k=size // 3))[:size]


def step_texts(count: int = 1000) -> list[str]:
    """What the steps of a run return: random text of 1.5 KB each."""
    rng = random.Random(f"{SEED} steps")
    return [text(rng, "random", TEXT_BYTES) for _ in range(count)]


def _message(rng: random.Random, variant: Variant, at: int) -> dict[str, Any]:
    return {
        "role": ("user", "assistant")[at % 2],
        "content": text(rng, variant, CONTENT_BYTES),
        "id": f"msg_{rng.getrandbits(64):016x}",
        "created_at": 1_767_000_000 + 30 * at,
        "tokens": rng.randrange(100, 900),
        "model": "model-large",
        "latency_s": round(rng.random(), 3),
    }


def conversation(variant: Variant, count: int, seed: int = SEED) -> list[Turn]:
    """Turns of a conversation: a message with 1,500 characters of text each, and nothing else that changes."""
    rng = random.Random(f"{seed} {variant} conversation")
    told = [_message(rng, variant, at) for at in range(count)]
    return [Turn({**message, "content": text(rng, variant, TEXT_BYTES)}, {}) for message in told]


def nested(message: dict[str, Any]) -> dict[str, Any]:
    """The same message, its lesser fields in a dict of their own."""
    outer = ("role", "content", "id")
    rest = {name: value for name, value in message.items() if name not in outer}
    return {**{name: message[name] for name in outer}, "metadata": rest}


def _changes(rng: random.Random, variant: Variant) -> dict[str, str]:
    keys = rng.sample(range(CONTEXT_KEYS), CHANGED_KEYS)
    return {f"fact_{key:02}": text(rng, variant, VALUE_BYTES) for key in keys}


@dataclass(slots=True)
class State:
    """A state that grows turn by turn in place, as an agent's does."""

    context: dict[str, str]
    messages: list[Any] = field(default_factory=list)

    def take(self, turn: Turn, message: Any = None) -> dict[str, Any]:
        """Add one turn and return the whole state; `message` replaces the plain dict."""
        self.messages.append(turn.message if message is None else message)
        self.context.update(turn.changed)
        return self.whole()

    def whole(self) -> dict[str, Any]:
        """The state as it is given to a store."""
        return {"messages": self.messages, "context": self.context}


def final_state(variant: Variant, count: int) -> dict[str, Any]:
    """The state after `count` turns."""
    state = State(opening_context(variant))
    for turn in turns(variant, count):
        state.take(turn)
    return state.whole()
