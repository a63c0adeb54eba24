"""An error at the end of a command: its exit code, its lines for people, its body for programs (RFC 9457)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from perdure.cli.hints import hint
from perdure.cli.output import write_error, write_json
from perdure.core import errors
from perdure.core.addresses import redact_words
from perdure.core.printable import printable

OK, FAILED, USAGE, NOT_FOUND, CONFLICT, INVALID, WAITS, UNAVAILABLE, DAMAGED, INTERRUPTED = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    130,
)
EXIT_CODES = {
    OK: "done",
    FAILED: "failed, or only a part was done",
    USAGE: "wrong usage: an unknown command, option or value",
    NOT_FOUND: "there is no such thread, run, pause, version or checkpoint",
    CONFLICT: "something else came first, or the state does not allow it; nothing was written",
    INVALID: "invalid input: an id, a ref, a value, an address, a configuration",
    WAITS: "a run waits for a person",
    UNAVAILABLE: "the storage cannot be reached, opened or written",
    DAMAGED: "stored data is damaged",
    INTERRUPTED: "interrupted",
}
STORE_VARIABLE = "PERDURE_STORE"
ADDRESS = re.compile(r"(file|memory|mysql|mariadb|postgresql|postgres|sqlite):")
_CODES: tuple[tuple[type[Exception], int, int], ...] = (  # error, exit code, status of HTTP; the first that fits
    (errors.NotFoundError, NOT_FOUND, 404),
    (errors.ConflictError, CONFLICT, 409),
    (errors.QuarantinedError, CONFLICT, 409),
    (errors.DamagedError, DAMAGED, 500),
    (errors.StorageError, UNAVAILABLE, 503),
    (errors.NotAllowedError, FAILED, 403),
    (errors.AmbiguousThreadError, INVALID, 422),
    (errors.InvalidInputError, INVALID, 422),
)


class UsageError(Exception):
    """The words of a command do not go together."""


class AmbiguousIdError(errors.InvalidInputError):
    """A beginning of an id fits several; they are named."""

    def __init__(self, what: str, typed: str, candidates: Sequence[str], more: bool) -> None:
        listed = ", ".join(candidates) + (" and more" if more else "")
        super().__init__(
            f"{typed!r} is the beginning of {len(candidates)}{'+' if more else ''} {what}: {listed}; give more of it"
        )
        self.candidates = tuple(candidates)


class Stopped(Exception):
    """A command printed what is wrong itself, and ends with an exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def report(exc: Exception, typed: Sequence[str]) -> int:
    """Print an error without the passwords of what was typed, and return the exit code."""
    code, status = _codes(exc)
    texts = [" ".join(redact_words(each, typed).split()) for each in _texts(exc)]
    steps = [redact_words(each, typed) for each in next_steps(exc, typed)]
    if output_of(typed) == "table":
        for each in texts:
            write_error(f"error: {printable(each)}")
        for each in steps:
            write_error(f"next: {each}")
    else:
        name = type(exc).__name__ if not isinstance(exc, UsageError) else "UsageError"
        body: dict[str, Any] = {
            "type": f"urn:perdure:error:{name}", "title": _title(exc), "status": status, "detail": "\n".join(texts),
            "exit_code": code, "next": steps,
        }  # fmt: skip
        if isinstance(exc, AmbiguousIdError):
            body["candidates"] = exc.candidates
        if isinstance(exc, errors.InvalidConfigError):
            body["problems"] = texts
        write_json(body, stderr=True)
    return code


def exit_code(exc: Exception) -> int:
    """The exit code of an error."""
    return _codes(exc)[0]


def output_of(typed: Sequence[str]) -> str:
    """The format that was asked for, also where the rest of the words cannot be parsed."""
    for at, word in enumerate(typed):
        if word == "--":
            break
        for option in ("--output", "-o"):
            if word == option:
                return _format(typed[at + 1] if at + 1 < len(typed) else "")
            if word.startswith(f"{option}=") or (option == "-o" and re.fullmatch(r"-o[a-z]+", word)):
                return _format(word.removeprefix(option).removeprefix("="))
    return "table"


def typed_store(typed: Sequence[str]) -> str | None:
    """The address that was typed, to be repeated in a hint."""
    for at, word in enumerate(typed):
        if word == "--":
            break
        if word == "--store" and at + 1 < len(typed):
            return typed[at + 1]
        if word.startswith("--store="):
            return word.removeprefix("--store=")
    return typed[1] if len(typed) > 1 and ADDRESS.match(typed[1]) else None


def next_steps(exc: Exception, typed: Sequence[str]) -> list[str]:
    """What to type after an error, where there is one obvious thing."""
    name, _, _ = (typed[0] if typed else "").partition("=")
    store = typed_store(typed)
    if isinstance(exc, UsageError):
        from perdure.cli.main import COMMANDS, OF_TWO_WORDS

        two = " ".join(typed[:2])
        known = two if two in OF_TWO_WORDS else name if name in COMMANDS else ""
        return [f"perdure {known} --help" if known else "perdure --help"]
    if typed[1:2] == ["langgraph"]:  # what is not there may be in LangGraph's database
        return []
    if isinstance(exc, errors.NotFoundError):
        what = exc.what.partition(" ")[0]
        listing = {"thread": "threads", "pause": "pauses", "run": "runs"}.get(what)
        return [hint(listing, store, [], {})] if listing else []
    if isinstance(exc, (errors.LeaseHeldError, errors.UnfinishedRunError)):
        return [hint("why", store, [exc.thread_id], {})]
    if isinstance(exc, errors.QuarantinedError):
        return [hint("trust", store, [exc.thread_id], {"--dry-run": True})]
    if isinstance(exc, (errors.EntryDamagedError, errors.CheckpointDamagedError)) and name != "verify":
        return [hint("verify", store, [exc.thread_id], {})]
    if isinstance(exc, errors.PauseClosedError):
        return [hint("pauses", store, [], {})]
    return []


def _format(word: str) -> str:
    return word if word in ("json", "jsonl", "csv") else "table"


def _codes(exc: Exception) -> tuple[int, int]:
    if isinstance(exc, UsageError):
        return USAGE, 400
    return next(((code, status) for cls, code, status in _CODES if isinstance(exc, cls)), (FAILED, 500))


def _texts(exc: Exception) -> list[str]:
    if isinstance(exc, errors.AmbiguousThreadError):
        nobody = ", or --user '' for the one that belongs to nobody" if None in exc.users else ""
        return [f"{exc.who}; say whose: --user NAME{nobody}"]
    if isinstance(exc, errors.InvalidConfigError):
        return list(exc.problems)
    return [str(exc)]


def _title(exc: Exception) -> str:
    """What an error of this class means, in a sentence."""
    return (type(exc).__doc__ or "").strip().partition("\n")[0]
