"""What an approval is bound to: a tool, its arguments, its schema, and who may decide."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.answers import args_changed
from perdure.core.codec import decode_known
from perdure.core.payload import encode_body
from perdure.core.plain import LEAVES

_PURPOSE = b"perdure.approval.1"
_LONGEST = 200  # characters of a difference
_FILLED_IN = ("run", "idempotency_key")  # by a run; nobody is asked about them


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody approves."""

    tool: str
    args: Raw  # encoded by the codec
    schema: str = ""  # of the arguments, as JSON; "" where a function has none
    who: tuple[str, ...] = ()

    @property
    def digest(self) -> bytes:
        """What a decision carries, and what is computed again right before the tool runs."""
        parts = [self.tool, _canonical(self.args), _canonical_schema(self.schema), sorted(set(self.who))]
        return sha256(_PURPOSE + encode_body(parts)).digest()

    def has_schema(self, schema: str) -> bool:
        """Whether the tool has this schema, whatever order its parts have."""
        return _canonical_schema(self.schema) == _canonical_schema(schema)

    def differences(self, now: Terms) -> list[str]:
        """What is another by now, in words; empty for the same."""
        tool = [] if self.tool == now.tool else [f"the tool was {self.tool!r}, now {now.tool!r}"]
        same = _canonical(self.args) == _canonical(now.args)
        args = [] if same else _args_changed(decode_known(bytes(self.args)), decode_known(bytes(now.args)))
        who = (
            [] if set(self.who) == set(now.who) else [f"who may decide was {_people(self.who)}, now {_people(now.who)}"]
        )
        return [each[:_LONGEST] for each in (*tool, *_schema_changed(self.schema, now.schema), *args, *who)]


def schema_of(function: Callable[..., Any]) -> str:
    """The parameters of a plain function as a schema; "" where they cannot be known."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ""
    shown = {name: _parameter(each) for name, each in parameters.items() if name not in _FILLED_IN}
    return json.dumps({"properties": shown}, sort_keys=True)


def _parameter(each: inspect.Parameter) -> dict[str, Any]:
    """One parameter. A default that is an object may show its address, which is another one in each process."""
    kind = {} if each.annotation is each.empty else {"type": _name_of(each.annotation)}
    if each.default is each.empty:
        return {"kind": each.kind.description, **kind}
    default = repr(each.default) if type(each.default) in LEAVES else type(each.default).__qualname__
    return {"kind": each.kind.description, **kind, "default": default}


def _name_of(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _canonical(args: Raw) -> bytes:
    """The same bytes whatever order the keys of mappings came in, and whether or not a class is known here."""
    return encode_body(_sorted(msgspec.msgpack.decode(bytes(args))))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=str)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _canonical_schema(schema: str) -> str:
    if not schema:
        return ""
    return json.dumps(json.loads(schema), sort_keys=True, separators=(",", ":"))


def _schema_changed(before: str, now: str) -> list[str]:
    if _canonical_schema(before) == _canonical_schema(now):
        return []
    old, new = _properties(before), _properties(now)
    gone = [f"argument {name} is gone" for name in old if name not in new]
    added = [f"argument {name} is new" for name in new if name not in old]
    other = [f"argument {name} was {_short(old[name])}, now {_short(new[name])}"
             for name in old if name in new and old[name] != new[name]]  # fmt: skip
    return [*gone, *added, *other] or ["the tool's schema is another one"]


def _properties(schema: str) -> Mapping[str, Any]:
    found = json.loads(schema).get("properties", {}) if schema else {}
    return found if isinstance(found, dict) else {}


def _args_changed(before: Any, now: Any) -> list[str]:
    told = args_changed(before, now)
    added = [f"args.{name} is new" for name in now if name not in before] if isinstance(now, Mapping) else []
    return [*told, *added] or ["the arguments are others"]


def _short(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _people(who: tuple[str, ...]) -> str:
    return " or ".join(who) or "anybody"
