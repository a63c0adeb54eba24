"""`perdure timeline URL THREAD`: everything that happened in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure.checkpoints.travel import TimelineItem
from perdure.cli.output import write_json, write_lines
from perdure.cli.parameters import HERE, Output, Owner, Place, ThreadId, Untouched
from perdure.cli.stores import opened_store, user_of
from perdure.core.retention_words import shown, table

_COLUMNS = ("", "version", "at", "actor", "kind", "bytes", "what")
_NUMBERS = frozenset({"version", "bytes"})


def timeline(
    url: Untouched,
    thread: ThreadId,
    /,
    *,
    user: Owner = None,
    after: int = 0,
    limit: int | None = None,
    at: Place = HERE,
    output: Output = "text",
) -> None:
    """Say who did what in a thread, and when, oldest first.

    A ~ stands before what a rewind left behind. What was pruned has no bytes; who and when stay. The actor of what a
    run wrote is its worker and process; args is a digest of the arguments, the same for the same ones.

    Parameters
    ----------
    after
        Only what came after this version.
    limit
        At most this many entries.
    """
    with opened_store(url, at) as store:
        items = store.thread(thread, user=user_of(user, store)).timeline(after, limit)
    if output == "json":
        write_json(items)
        return
    write_lines(_lines(items))


def _lines(items: Sequence[TimelineItem]) -> Iterable[tuple[str, str]]:
    """What to print, and how: what is gone or left behind is there, and does not catch the eye."""
    head, *lines = table([_COLUMNS, *map(_row, items)], _NUMBERS)
    yield head, "bold"
    yield from ((line, "dim" if item.left or item.pruned else "") for line, item in zip(lines, items, strict=True))


def _row(item: TimelineItem) -> tuple[str, ...]:
    when = item.at.strftime("%Y-%m-%d %H:%M:%SZ")
    sign = "~" if item.left else ""
    return (sign, f"@{item.version}", when, shown(item.actor), item.kind, f"{item.bytes:,}", _said(item))


def _said(item: TimelineItem) -> str:
    """What stands on the point that an entry made, what became of it, and which step, tool, model or person it was."""
    back = f"to @{item.rewound_to}" if item.rewound_to is not None else ""
    said = [shown(each) for each in (item.checkpoint_kind, item.status) if each]
    note = [repr(item.note)] if item.note else []
    return " ".join([*said, *note, *filter(None, [back, "pruned" if item.pruned else "", item.what])])
