"""Each key of a configuration changes what a store, an agent or a worker is made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Config
from perdure.app.config.keys import KEYS, Key
from perdure.app.config.resolve import resolve_config
from perdure.sync import Perdure

POSTGRES, SQLITE = "postgresql://127.0.0.1:1/agents", "sqlite:///agents.db"
# What is written, and what has to stand beside it. Keys that are not here are written in a file of their own.
VALUES: dict[str, tuple[str, str]] = {
    "store": ("sqlite:///other.db", ""),
    "password": ("hunter2", f"store: {POSTGRES}"),
    "schema": ("other", f"store: {POSTGRES}"),
    "hot": ("redis://127.0.0.1:1", ""),
    "cache_ttl": ("7", "hot: redis://127.0.0.1:1"),
    "max_cached_threads": ("7", "hot: redis://127.0.0.1:1"),
    "max_pending": ("7", "durability: background"),
    **dict.fromkeys(("pool_min", "pool_max", "pool_timeout"), ("7", f"store: {POSTGRES}")),
    **dict.fromkeys(("retry_seconds", "call_timeout"), ("7", f"store: {POSTGRES}")),
    "prepare": ("false", f"store: {POSTGRES}"),
    "file_mode": ("0o660", ""),
    "approvals.enabled": ("false", "approvals.require_approval_for: [deploy]"),
    "approvals.timeout": ("7", "approvals.require_approval_for: [deploy]"),
    "approvals.auto_reject": ("false", "approvals.require_approval_for: [deploy]"),
    "retention.per": ("thread", "retention.last: 3"),
    "retention.kinds": ("{routine: {last: 3}}", ""),
    "retention.tags": ("{release: {last: 3}}", ""),
    "webhooks": ("[{url: 'http://127.0.0.1:1/hook'}]", ""),
    "prices": ("{m: {input: 1}}", ""),
    "agent.settings": ("{temperature: 0}", "agent.model: m"),
    "agent.base_url": ("http://127.0.0.1:1", "agent.model: m"),
    "max_decoded_bytes": ("4096", ""),
    "max_decoded_nodes": ("4096", ""),
    "worker.handlers": ("agents", ""),
}
_OTHERS = {
    "flag": None,
    "count": "7",
    "seconds": "7",
    "number": "7",
    "text": "other",
    "texts": "[deploy]",
    "secret": "other",
}


def written(key: Key) -> str:
    if key.name in VALUES:
        return VALUES[key.name][0]
    if key.kind == "flag":
        return str(not key.default).lower()
    if key.kind == "choice":
        return next(each for each in reversed(key.choices) if each != key.default)
    return str(_OTHERS[key.kind])


def beside(key: Key) -> str:
    if key.name in VALUES:
        return VALUES[key.name][1]
    return "agent.model: m" if key.name.startswith("agent.") and key.name != "agent.model" else ""


def text_of(*lines: str) -> str:
    """Lines with dotted keys, as a file: `a.b: 1` is `a: {b: 1}`."""
    blocks: dict[str, list[str]] = {}
    for line in filter(None, lines):
        name, _, value = line.partition(": ")
        head, _, rest = name.partition(".")
        blocks.setdefault(head, []).append(f"  {rest}: {value}" if rest else value)
    return "\n".join(
        f"{head}:\n" + "\n".join(each) if each[0][:1] == " " else f"{head}: {each[0]}" for head, each in blocks.items()
    )


def parts(value: Any, name: str = "", depth: int = 0, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every plain value that an object of ours reaches, by its path."""
    seen = set() if seen is None else seen
    if value is None or isinstance(value, str | int | float | bytes | tuple | frozenset):
        yield name, repr(value)
        return
    if callable(value) and not hasattr(value, "__dict__"):
        yield name, "callable"
        return
    if id(value) in seen or depth > 9:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for each, inner in value.items():
            yield from parts(inner, f"{name}.{each}", depth + 1, seen)
    elif type(value).__module__.startswith("perdure"):
        fields = {
            each: getattr(value, each, None) for cls in type(value).__mro__ for each in getattr(cls, "__slots__", ())
        }
        fields |= {each: getattr(value, each) for each in getattr(value, "__struct_fields__", ())}
        fields |= getattr(value, "__dict__", {})
        for each, inner in fields.items():
            yield from parts(inner, f"{name}.{each}", depth + 1, seen)
    else:
        # What a driver or Python itself was given: a pool, a bound function, a queue.
        yield name, type(value).__name__
        if getattr(value, "__self__", None) is not None:
            yield from parts(value.__self__, f"{name}()", depth + 1, seen)
        for each in getattr(value, "__closure__", None) or ():
            yield from parts(each.cell_contents, f"{name}<>", depth + 1, seen)


def made_of(text: str) -> dict[str, Any]:
    """What a file makes: the store with everything in it, an agent that names nothing, and what a worker reads."""
    Path("perdure.yaml").write_text(text)
    Config.trust("perdure.yaml")
    config = resolve_config()
    store = Perdure.from_config("perdure.yaml")  # not entered: no server has to be there
    try:
        inner = store._store
        found = dict(parts({"parts": inner._parts, "namespace": inner._namespace}))
        found |= dict(parts({"runtime": inner._parts.running.runtime}))
        if config.agent.model:
            found |= dict(parts({"agent": store.agent("a")._agent.spec}))
    finally:
        store.close()
    return found | dict(parts({"worker": config.worker, "prices": dict(config.prices)}))


@pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_each_key_changes_what_is_made(key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.54, S4.11–S4.20, N0, N4."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    without = made_of(text_of(beside(key)))
    changed = made_of(text_of(beside(key), f"{key.name}: {written(key)}"))
    assert changed != without


def test_nothing_else_changes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for text in ("", "agent.model: m", f"store: {POSTGRES}", "hot: redis://127.0.0.1:1"):
        assert made_of(text_of(text)) == made_of(text_of(text))
