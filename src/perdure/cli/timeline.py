"""`perdure timeline THREAD`: everything that happened in a thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure.checkpoints.travel import TimelineItem
from perdure.cli.common_options import HERE, Output, Owner, ThreadId, ThreadOptions, opened_store
from perdure.cli.lookup import thread_of
from perdure.cli.output import write_data, write_lines, write_next
from perdure.core.checkpoint import check_limit
from perdure.core.retention_words import shown, table

_COLUMNS = ("", "version", "at", "actor", "kind", "bytes", "what")
_NUMBERS = frozenset({"version", "bytes"})


def timeline(
    thread: ThreadId,
    /,
    *,
    user: Owner = None,
    after: int = 0,
    limit: int = 100,
    last: int | None = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
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
    last
        The newest that many entries, instead of --after and --limit.
    """
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        head = found.info().version
        if last is not None:
            after, limit = max(0, head - check_limit(last, "--last")), last
        items = found.timeline(after, limit)
    if items and items[-1].version < head:
        write_next(at.hint("timeline", found.id, user=user, options={"--after": str(items[-1].version)}))
    if output != "table":
        write_data(items, output)
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
