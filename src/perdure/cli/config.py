"""`perdure config check | trust FILE`: what a file of settings means, or everything that is wrong with it."""

from __future__ import annotations

from typing import Any, Literal

from perdure.app.config.config import Config
from perdure.cli.output import write, write_error, write_json
from perdure.cli.parameters import Output
from perdure.core.addresses import redact_url
from perdure.core.errors import InvalidConfigError
from perdure.core.printable import printable

_SECRETS = ("hot",)


def config(action: Literal["check", "trust"], file: str, /, *, output: Output = "text") -> int:
    """Check a config.yaml, and say what it means; or trust it as it is.

    Nothing is opened or started. Everything that is wrong is told at once, each with its line and column; the exit
    code is 1 then. A file that nobody names with --config may say where a local store is, and options: servers,
    receivers of notifications and environment variables need trust. A file that changed is no longer trusted.

    Parameters
    ----------
    action
        What to do: check, or trust.
    file
        The file.
    """
    try:
        found = meaning(Config.load(file) if action == "check" else Config.trust(file))
    except InvalidConfigError as exc:
        if output == "json":
            write_json({"problems": exc.problems})
        else:
            write_error("\n".join(map(printable, exc.problems)))
        return 1
    found["trust"] = _trust(file)
    if output == "json":
        write_json(found)
    else:
        write("\n".join(_lines(found)))
    return 0


def meaning(found: Config) -> dict[str, Any]:
    """A file as it is understood, without passwords and secrets."""
    told = {name: redact_url(value) if name in _SECRETS else value for name, value in found.options.items()}
    triggers, recovery, approvals = found.triggers, found.recovery, found.approvals
    return {
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


def _trust(file: str) -> str:
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
    if isinstance(value, tuple | list):
        return " ".join(printable(each["url"] if isinstance(each, dict) else str(each)) for each in value) or "none"
    if value is None:
        return "none"
    return printable(str(value)) if value is not True and value is not False else "yes" if value else "no"
