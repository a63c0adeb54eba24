"""`perdure config`: what settings mean, where each comes from, and what is wrong with them."""

from __future__ import annotations

import os
from typing import Any, Literal

from perdure.app.config.config import Config, Sources, read_sources
from perdure.app.config.environment import is_env_file
from perdure.app.config.keys import KEYS, Key
from perdure.app.config.resolve import FILE_NAME, find_config, resolve_sources
from perdure.cli.common_options import Output
from perdure.cli.output import write, write_error, write_json
from perdure.core.addresses import may_hold_password, redact_url
from perdure.core.errors import InvalidConfigError, InvalidInputError
from perdure.core.printable import printable

INVALID = 5
_SECRETS = ("hot", "password")


def config(
    action: Literal["check", "show", "migrate", "schema", "trust"],
    file: str | None = None,
    /,
    *,
    origin: bool = False,
    to: str | None = None,
    output: Output = "table",
) -> int:
    """Say what a configuration means, where each setting comes from and what is wrong with it; or trust a file.

    check says what a file means, or everything that is wrong with it (exit code 5). show prints every setting, with
    --origin also where it was set: a file, .env, the environment, or nowhere. migrate prints the perdure.yaml of a file
    in other words. schema prints the JSON Schema of perdure.yaml for editors. trust allows a file, or a .env, that
    nobody names with --config every setting, until it changes. Nothing is opened or started, and no secret is printed.

    Parameters
    ----------
    action
        What to do: check, show, migrate, schema or trust.
    file
        The file; without one, the nearest perdure.yaml.
    origin
        show: where each setting was set.
    to
        migrate: the file to write; one that is there is not replaced.
    """
    try:
        return _ACTIONS[action](file, origin, to, output)
    except InvalidConfigError as exc:
        if output != "table":
            write_json({"problems": exc.problems})
        else:
            write_error("\n".join(map(printable, exc.problems)))
        return INVALID


def _check(file: str | None, origin: bool, to: str | None, output: str) -> int:
    path = _named(file)
    return _told(Config.load(path), path, output)


def _trust(file: str | None, origin: bool, to: str | None, output: str) -> int:
    path = _named(file)
    found = Config.trust(path)
    if is_env_file(path):
        write(f"trusted            {printable(path)}, until it changes")
        return 0
    return _told(found, path, output)


def _told(config: Config, path: str, output: str) -> int:
    found = meaning(config)
    found["trust"] = _trust_of(path)
    if output != "table":
        write_json(found)
    else:
        write("\n".join(_lines(found)))
    return 0


def _named(file: str | None) -> str:
    """The file that was named, or the nearest one."""
    path = file or find_config()
    if path is None:
        raise InvalidInputError(f"there is no {FILE_NAME} here or in a folder above; name the file, or `perdure init`")
    return path


def _show(file: str | None, origin: bool, to: str | None, output: str) -> int:
    sources = read_sources(file) if file else resolve_sources()
    sources.config()  # everything that is wrong is told first
    rows = [(key.name, _value(key, sources), _origin(key, sources)) for key in KEYS]
    if output != "table":
        write_json({name: {"value": value, "origin": where} for name, value, where in rows})
        return 0
    width = max(len(name) for name, _, _ in rows)
    shown = [(name, _word(value), where) for name, value, where in rows]
    wide = min(max(len(value) for _, value, _ in shown), 40)
    for name, value, where in shown:
        write(f"{name:<{width}}  {value:<{wide}}  {printable(where)}" if origin else f"{name:<{width}}  {value}")
    return 0


def _value(key: Key, sources: Sources) -> Any:
    """The value of a key as people may see it."""
    setting = sources.settings.get(key.name)
    if setting is None:
        return (
            f"{key.default:04o}" if key.kind == "mode" else key.default or (key.default if key.default == 0 else None)
        )
    value: Any = setting.value
    if key.name in ("store", "hot", "agent.base_url"):
        return redact_url(str(value))
    if key.kind in ("secret", "password"):
        return "(set, not shown)"
    if key.kind == "mode":
        return f"{value:04o}"
    if key.kind == "webhooks":
        return [each.place for each in value]
    if key.kind == "rules":
        return {name: rule.to_text() for name, rule in value.items()}
    if key.kind == "settings":
        return sorted(value)
    return "(not shown)" if isinstance(value, str) and may_hold_password(value) else value


def _origin(key: Key, sources: Sources) -> str:
    setting = sources.settings.get(key.name)
    return "default" if setting is None else setting.origin


def _migrate(file: str | None, origin: bool, to: str | None, output: str) -> int:
    from perdure.app.config.migration import migrate

    text = migrate(_named(file))
    if to is None:
        write(text.rstrip("\n"))
        return 0
    try:
        handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInputError(f"{to} is there already; name another file, or move it away") from None
    except OSError as exc:
        raise InvalidInputError(f"{to} cannot be written: {exc.strerror}; name another file") from exc
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(text)
    write(f"written            {printable(to)}")
    return 0


def _schema(file: str | None, origin: bool, to: str | None, output: str) -> int:
    from perdure.app.config.schema import json_schema

    write_json(json_schema())
    return 0


_ACTIONS = {"check": _check, "show": _show, "migrate": _migrate, "schema": _schema, "trust": _trust}


def meaning(found: Config) -> dict[str, Any]:
    """A file as it is understood, without passwords and secrets."""
    told = {name: _option(name, value) for name, value in found.options.items()}
    triggers, recovery, approvals = found.triggers, found.recovery, found.approvals
    meant: dict[str, Any] = {
        "storage": redact_url(found.url),
        "options": told,
        "checkpoints": {name: getattr(triggers, name) for name in triggers.__struct_fields__}
        | {"every": triggers.every.total_seconds() if triggers.every else None},
        "recovery": {name: getattr(recovery, name) for name in recovery.__struct_fields__},
        "approvals": {name: getattr(approvals, name) for name in approvals.__struct_fields__},
        "notifications": [
            {"url": each.place, "signed": each.secret is not None, "attempts": each.attempts} for each in found.webhooks
        ],
    }
    if found.retention is not None:
        meant["retention"] = found.retention.to_text()
    if found.agent.model is not None:
        meant["agent"] = {"model": found.agent.model, "max_turns": found.agent.max_turns}
    if found.worker.handlers is not None:
        meant["worker"] = {name: getattr(found.worker, name) for name in found.worker.__struct_fields__}
    if found.prices:
        meant["prices"] = {model: f"{each['input']:g}/{each['output']:g}" for model, each in found.prices.items()}
    return meant


def _option(name: str, value: Any) -> Any:
    if name == "password":
        return "(set, not shown)"
    return redact_url(value) if name in _SECRETS else value


def _trust_of(file: str) -> str:
    """Whether all of a file would be read if nobody named it."""
    try:
        Config.load_discovered(file)
    except InvalidConfigError:
        return "needed where nobody names the file"
    return "given, or not needed"


def _lines(found: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in found.items():
        said = [f"{key} {_word(each)}" for key, each in value.items()] if isinstance(value, dict) else None
        lines.append(f"{name:<18} {', '.join(said) if said is not None else _word(value)}".rstrip())
    return lines


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{printable(str(name))} {_word(each)}" for name, each in value.items()) or "none"
    if isinstance(value, tuple | list):
        return " ".join(printable(each["url"] if isinstance(each, dict) else str(each)) for each in value) or "none"
    if value is None or value == "":
        return "none"
    return printable(str(value)) if value is not True and value is not False else "yes" if value else "no"
