"""A checkpoint of LangGraph as a state of ours, and back: its channels side by side, the rest under one key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.adapters.langgraph.types import Opaque
from perdure.core.codec import decode, encode
from perdure.core.errors import InvalidInputError

REST = "__langgraph__"  # the key of the state under which everything stands that is no channel's value
_PARENT = "parent"
_APART = ("id", "channel_values")
NOTHING: Mapping[str, Any] = {}


class Values:
    """How values of channels are kept: as they are, or as the bytes that a serializer of the user's makes of them."""

    def __init__(self, serde: Any = None) -> None:
        self._serde = serde

    @property
    def are_opaque(self) -> bool:
        """Whether nobody but the user's serializer may read them."""
        return self._serde is not None

    def kept(self, value: Any) -> Any:
        """What is stored of a value."""
        return value if self._serde is None else Opaque(*self._serde.dumps_typed(value))

    def given(self, stored: Any) -> Any:
        """The value that was stored."""
        if self._serde is None or type(stored) is not Opaque:
            return stored
        return self._serde.loads_typed((stored.type, stored.data))


def state_of(
    checkpoint: Mapping[str, Any],
    parent: str | None,
    new_versions: Mapping[str, Any],
    before: Mapping[str, Any],
    kept: Values,
) -> dict[str, Any]:
    """The state that a checkpoint is. `before` is the state that it builds on, as far as it is needed (`missing`)."""
    given: Mapping[str, Any] = checkpoint["channel_values"]
    if REST in given:
        raise InvalidInputError(f"a channel cannot be called {REST!r}; rename it")
    values = {name: kept.kept(value) for name, value in given.items()}
    for name in missing(checkpoint, new_versions):
        if name in before:
            values[name] = before[name]
    rest = {name: value for name, value in checkpoint.items() if name not in _APART}
    # In one piece: nearly all of it changes with every checkpoint, and nobody compares it part by part.
    return {**values, REST: encode({**rest, _PARENT: parent}, at=(REST,), subclasses="plain")}


def rest_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in a state besides the values of channels."""
    return decode(state.get(REST, b"\x80"))


def missing(
    checkpoint: Mapping[str, Any], new_versions: Mapping[str, Any], empty: Mapping[str, Any] = NOTHING
) -> list[str]:
    """The channels that did not change and were not given: they are what they were.

    `empty` are channels that are known to have had no value, and the versions at which they had none.
    """
    given, now = checkpoint["channel_values"], checkpoint["channel_versions"]
    unchanged = [name for name in now if name not in given and name not in new_versions]
    return [name for name in unchanged if name not in empty or empty[name] != now[name]]


def without_value(versions: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The channels that have a version and no value."""
    return {name: version for name, version in versions.items() if name not in values}


def kept_from(before: Mapping[str, Any], checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """The channels of a state that have the same version in a checkpoint."""
    versions = rest_of(before).get("channel_versions", {})
    now = checkpoint["channel_versions"]
    return {name: value for name, value in before.items() if name in now and versions.get(name) == now[name]}


def checkpoint_in(state: dict[str, Any], id: str, kept: Values) -> tuple[dict[str, Any], str | None]:
    """The checkpoint that a state is, and the id of its parent."""
    rest = rest_of(state)
    values = {name: kept.given(value) for name, value in state.items() if name != REST}
    parent = rest.pop(_PARENT, None)
    return {**rest, "id": id, "channel_values": values}, parent
