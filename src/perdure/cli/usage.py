"""`perdure usage`: what models cost, by run, thread, user, agent, model or day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from perdure.cli.common_options import HERE, Output, Owned, ThreadOptions, fields_of_struct, opened_store, user_of
from perdure.cli.output import progress, write_data, write_error, write_lines
from perdure.core.errors import InvalidInputError
from perdure.core.printable import printable
from perdure.core.retention_words import shown, table
from perdure.core.usage import UsageBy, UsageReport, UsageRow

_NUMBERS = frozenset({"calls", "input", "cached", "output", "retries", "seconds", "money"})
_FORM = "MODEL=INPUT:OUTPUT or MODEL=INPUT:OUTPUT:CACHED, the prices of a million tokens"
_LARGEST_FILE = 1 << 20  # bytes


def usage(
    *,
    by: UsageBy = "model",
    since: str | None = None,
    until: str | None = None,
    price: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    prices: str | None = None,
    limit: int = 50,
    user: Owned = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Total tokens, calls, retries and money of models, out of the logs.

    Money is shown where every model has a price and every answer told its tokens; else it is "at least" what is known.

    Parameters
    ----------
    by
        What a row is: a run, thread, user, agent, model or day (UTC).
    since
        Only calls from this time on, such as 2026-11-01T00:00Z.
    until
        Only calls before this time.
    price
        MODEL=INPUT:OUTPUT[:CACHED], the prices of a million tokens; may be given several times.
    prices
        A JSON file of such prices: {"gpt-4o-mini": {"input": 0.15, "output": 0.6}}.
    limit
        At most this many rows; the total has all.
    """
    table_of_prices = {**_from_file(prices), **dict(map(_price, price))} or None
    begin, end = _time(since, "--since"), _time(until, "--until")
    if limit < 1:
        raise InvalidInputError(f"--limit must be 1 or more, not {limit}")
    with opened_store(at) as store, progress("threads") as tell:
        report = store.usage(
            by, since=begin, until=end, user=user_of(user, store), prices=table_of_prices, progress=tell
        )  # fmt: skip
    if output != "table":
        write_data(_data(report, limit), output)
    else:
        write_lines(_lines(report, limit))
    for each in report.skipped:
        write_error(f"warning: thread {shown(each.thread_id)} is damaged, and nothing of it is counted: "
                    f"{printable(each.reason)}")  # fmt: skip


def _lines(report: UsageReport, limit: int) -> Iterable[tuple[str, str]]:
    columns = (report.by, *(("user",) if report.by in ("run", "thread") else ()))
    head = (*columns, "calls", "input", "cached", "output", "retries", "seconds", "money")
    rows = [_row(row, _names(row, report.by)) for row in report[:limit]]
    total = _row(report.total, ("total", *([""] * (len(columns) - 1))))
    first, *lines = table([head, *rows, total], _NUMBERS)
    yield first, "bold"
    yield from ((line, "") for line in lines[:-1])
    yield lines[-1], "bold"
    yield from ((line, "dim") for line in _remarks(report, limit))


def _names(row: UsageRow, by: UsageBy) -> tuple[str, ...]:
    name = shown(None if row.name is None else str(row.name))
    return (name, shown(None if row.user is None else str(row.user))) if by in ("run", "thread") else (name,)


def _row(row: UsageRow, names: tuple[str, ...]) -> tuple[str, ...]:
    counts = (row.calls, row.input_tokens, row.cached_tokens, row.output_tokens, row.retries)
    return (*names, *(f"{each:,}" for each in counts), f"{row.seconds:,.1f}", _money(row))


def _money(row: UsageRow) -> str:
    if row.money is not None:
        return _amount(row.money)
    return f"≥ {_amount(row.money_at_least)}" if row.money_at_least else "?"


def _amount(money: Decimal) -> str:
    """To the cent, and small sums to the first two digits that say something."""
    small = Decimal("0.01") if money >= 1 or not money else Decimal(1).scaleb(min(money.adjusted() - 1, -2))
    return f"{money.quantize(small):,f}"


def _remarks(report: UsageReport, limit: int) -> Iterable[str]:
    if len(report) > limit:
        yield f"{len(report) - limit:,} more rows; --limit shows more"
    if report.unpriced:
        names = ", ".join(map(shown, report.unpriced))
        yield f"no price is known for {names}: give --price MODEL=INPUT:OUTPUT"
    if report.total.uncounted:
        count = report.total.uncounted
        yield f"{count:,} answer{'' if count == 1 else 's'} came without a number of tokens"
    if report.pruned:
        yield f"{report.pruned:,} calls or failures were pruned, and are not counted"


def _data(report: UsageReport, limit: int) -> dict[str, Any]:
    return {
        "by": report.by, "rows": [_numbers(row) for row in report[:limit]], "total": _numbers(report.total),
        "skipped": [fields_of_struct(each) for each in report.skipped], "pruned": report.pruned,
    }  # fmt: skip


def _numbers(row: UsageRow) -> dict[str, Any]:
    return fields_of_struct(row) | {"total_tokens": row.total_tokens}


def _price(text: str) -> tuple[str, dict[str, str]]:
    model, equals, amounts = text.rpartition("=")
    parts = amounts.split(":")
    if not model or not equals or len(parts) not in (2, 3):
        raise InvalidInputError(f"--price looks like {_FORM}, not {text!r}")
    return model, dict(zip(("input", "output", "cached"), parts, strict=False))


def _from_file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        read = msgspec.json.decode(content) if len(content) <= _LARGEST_FILE else None
    except OSError as exc:
        raise InvalidInputError(f"--prices {path}: {exc.strerror}") from exc
    except msgspec.DecodeError as exc:
        raise InvalidInputError(f"--prices {path} is not JSON: {exc}") from exc
    if not isinstance(read, dict):
        raise InvalidInputError(f"--prices {path} must hold an object of at most 1 MiB: models and their prices")
    return read


def _time(text: str | None, option: str) -> datetime | None:
    try:
        at = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{option} must be a time such as 2026-11-01T00:00Z, not {text!r}") from None
    if at is not None and at.tzinfo is None:
        raise InvalidInputError(f"{option} must say its time zone: write {at.isoformat()}Z for UTC")
    return at
