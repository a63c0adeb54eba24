"""Going back and forth in a thread: what a rewind would leave behind, and the view of everything that happened."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import msgspec

from perdure.core.calls import decode_called, told
from perdure.core.checkpoint import MAX_LIMIT, CheckpointQuery, CheckpointRow
from perdure.core.codec import decode_tagged
from perdure.core.digest import body_of
from perdure.core.entries import STATE_KINDS, Entry, EntryKind
from perdure.core.entry_summary import summary_of
from perdure.core.errors import EntryDamagedError, NotFoundError
from perdure.core.printable import printable
from perdure.core.pruning import is_blank
from perdure.core.retention_words import shown
from perdure.core.seams import Range, within
from perdure.core.threads import ThreadRow
from perdure.core.times import to_datetime
from perdure.storage.contract import Storage

_TOOLS = (EntryKind.TOOL_STARTED, EntryKind.TOOL_FINISHED, EntryKind.TOOL_FAILED)


class Rewinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewind leaves behind. Nothing of it is erased: `redo` goes back to it."""

    thread_id: str
    to: int  # the version whose state becomes the newest
    version: int  # the newest version before the rewind
    entries: int  # that are left behind
    kinds: dict[str, int]  # … by kind
    checkpoints: list[str]  # ids of those left behind, newest first
    effects: list[str]  # tools among them that ran, a name for each call: what they did outside is not undone
    checkpoint: str | None = None  # the one that the rewind made

    def __str__(self) -> str:
        left = ", ".join(f"{count} {printable(kind)}" for kind, count in self.kinds.items()) or "nothing"
        words = f"rewind {printable(repr(self.thread_id))} from @{self.version} to @{self.to}: leaves {left}"
        tools = (
            f"{shown(name)} ({count} ×)" if count > 1 else shown(name) for name, count in Counter(self.effects).items()
        )
        return words + (f"; not undone: {', '.join(tools)}" if self.effects else "")


class TimelineItem(msgspec.Struct, frozen=True, kw_only=True):
    """One entry as an auditor sees it."""

    version: int
    kind: str
    at: datetime
    actor: str | None
    bytes: int  # of its payload, 0 when it was pruned
    pruned: bool
    left: bool  # off the lineage: a rewind went back before it
    checkpoint: str | None = None
    checkpoint_kind: str | None = None
    status: str | None = None
    note: str | None = None
    rewound_to: int | None = None
    name: str | None = None  # of the step, tool, model, pause, handler or tag
    person: str | None = None  # who decided, or said what a tool gave
    given: str | None = None  # the arguments of a call, in short
    args_digest: str | None = None  # … and their digest, in hex
    duration: timedelta | None = None  # of a call; of a run, since it was started
    run: str | None = None
    attempt: int | None = None
    error: str | None = None  # how it failed
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    def __str__(self) -> str:
        signs = [shown(each) for each in (self.checkpoint_kind, self.status) if each is not None]
        signs += [printable(repr(self.note))] if self.note else []
        signs += [f"to @{self.rewound_to}"] if self.rewound_to is not None else []
        signs += ["pruned"] if self.pruned else []
        words = " ".join([*signs, *([self.what] if self.what else [])])
        when, who = self.at.isoformat(sep=" ", timespec="seconds"), shown(self.actor)
        return f"{'~' if self.left else ' '}@{self.version:<6} {when} {who:<12} {self.kind:<18} {self.bytes:>8} {words}"

    @property
    def what(self) -> str:
        """Step, tool, model or person, with the arguments in short and the duration; on one line, for people."""
        call = f"{shown(self.name)}({printable(self.given)})" if self.name and self.given else shown(self.name)
        asked = f"{self.model} " if self.model and self.model != self.name else ""
        tokens = (
            f"{asked}{self.input_tokens:,} → {self.output_tokens:,} tokens" if self.input_tokens is not None else asked
        )
        parts = [
            call if self.name else "",
            f"by {shown(self.person)}" if self.person else "",
            printable(tokens.strip()),
            f"attempt {self.attempt}" if (self.attempt or 1) > 1 else "",
            "" if self.duration is None else f"in {_seconds(self.duration)}",
            printable(self.error) if self.error else "",
            f"args {self.args_digest[:8]}" if self.args_digest else "",
        ]
        return ", ".join(filter(None, parts))


def _seconds(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:,.3g} ms" if seconds else "0 ms"
    return f"{seconds:,.1f} s"


class Travel:
    """Looks at the past of threads on a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def preview(self, row: ThreadRow, to: int) -> Rewinding:
        """What a rewind to a version would leave behind."""
        left = tuple((await self._storage.seams(row.key)).left(row.head))
        found = await self._storage.entries(row.key, after=to)
        dropped = [entry for entry in found if entry.version <= row.head and not within(left, entry.version)]
        kinds: dict[str, int] = {}
        for entry in dropped:
            kinds[entry.kind.value] = kinds.get(entry.kind.value, 0) + 1
        marks = await self._storage.checkpoints(row.key, CheckpointQuery(limit=MAX_LIMIT, left=left))
        return Rewinding(
            thread_id=row.key.id,
            to=to,
            version=row.head,
            entries=len(dropped),
            kinds=kinds,
            checkpoints=[mark.mark.id for mark in marks if mark.entry > to],
            effects=_effects(row.key.id, dropped),
        )

    async def parent_of(self, row: ThreadRow, version: int) -> str | None:
        """The checkpoint that one built on this version comes after."""
        newer = (Range(version, row.head),)
        marks = await self._storage.checkpoints(row.key, CheckpointQuery(limit=1, left=newer))
        return marks[0].mark.id if marks else None

    async def last_rewind(self, row: ThreadRow) -> int:
        """The version that a redo goes back to; raise `NotFoundError` when the newest change is no rewind."""
        newest = await self._storage.headers(row.key, kinds=tuple(STATE_KINDS))
        if not newest or newest[0].kind is not EntryKind.THREAD_REWOUND:
            raise NotFoundError(f"a rewind of thread {row.key.id!r} to redo", "its newest change is not one")
        before = await self._storage.headers(row.key, at=newest[0].version - 1, kinds=tuple(STATE_KINDS))
        if not before:
            raise NotFoundError(f"a state of thread {row.key.id!r} before its rewind")
        return newest[0].version - 1  # and not that of the state: what was said since comes back too

    async def timeline(self, row: ThreadRow, after: int, limit: int) -> list[TimelineItem]:
        """Everything that happened, oldest first."""
        seams = await self._storage.seams(row.key)
        left, rewinds = seams.left(row.head), {each.entry: each.to for each in seams.rewinds}
        entries = await self._storage.entries(row.key, after=after, limit=limit)
        last = entries[-1].version if entries else after
        marks = {mark.entry: mark for mark in await self._marks(row, after, last)}
        found: list[TimelineItem] = []
        for entry in entries:
            if entry.version > row.head:  # the rest was read as of this row
                break
            mark, to = marks.get(entry.version), rewinds.get(entry.version)
            try:
                found.append(_item(row.key.id, entry, mark, to, within(left, entry.version)))
            except (TypeError, OverflowError) as exc:  # a column holds something else, or a time after the year 9999
                raise EntryDamagedError(row.key.id, entry.version, f"cannot be shown ({exc})") from exc
        return found

    async def tags(self, row: ThreadRow) -> dict[str, int]:
        """The tags of a thread, and the version each of them names."""
        found: dict[str, int | None] = {}
        for said in await self._said(row, EntryKind.CHECKPOINT_TAGGED):
            found[said["name"]] = said["version"]
        return {name: version for name, version in found.items() if version is not None}

    async def cleared(self, row: ThreadRow) -> set[str]:
        """The ids of checkpoints that were said to be no longer needed."""
        return {said["id"] for said in await self._said(row, EntryKind.CHECKPOINT_CLEARED)}

    async def _said(self, row: ThreadRow, kind: EntryKind) -> list[dict[str, Any]]:
        """What the entries of one kind say, oldest first. They are few: only theirs of all payloads are read."""
        headers = await self._storage.headers(row.key, kinds=[kind], limit=MAX_LIMIT)
        found: list[dict[str, Any]] = []
        for header in reversed(headers):
            for entry in await self._storage.entries(row.key, after=header.version - 1, limit=1):
                if entry.chain == header.chain:  # else another thread has this name by now
                    found.append(decode_tagged(body_of(row.key.id, entry)))
        return found

    async def _marks(self, row: ThreadRow, after: int, last: int) -> list[CheckpointRow]:
        """The checkpoints of a page of entries: a page of a long log must not read those of all of it."""
        others = tuple(each for each in (Range(0, after), Range(last, max(last, row.head))) if each.low < each.high)
        return await self._storage.checkpoints(row.key, CheckpointQuery(limit=MAX_LIMIT, left=others))


def _item(thread_id: str, entry: Entry, mark: CheckpointRow | None, to: int | None, left: bool) -> TimelineItem:
    said, summary = mark.mark if mark else None, summary_of(thread_id, entry)
    return TimelineItem(
        version=entry.version,
        kind=entry.kind.value,
        at=to_datetime(entry.micros),
        actor=entry.actor,
        bytes=len(entry.payload or b""),
        pruned=is_blank(entry),
        left=left,
        checkpoint=said.id if said else None,
        checkpoint_kind=said.kind if said else None,
        status=said.status if said else None,
        note=said.note if said else None,
        rewound_to=to,
        name=summary.name,
        person=summary.person,
        given=summary.given,
        args_digest=summary.args_digest,
        duration=None if summary.took is None else timedelta(microseconds=summary.took),
        run=summary.run,
        attempt=summary.attempt,
        error=summary.error,
        model=summary.model,
        input_tokens=summary.input_tokens,
        output_tokens=summary.output_tokens,
    )


def _effects(thread_id: str, entries: list[Entry]) -> list[str]:
    """The names of tools that ran, in order, each call once: it has an entry at its start and one for its result."""
    calls: dict[bytes, str] = {}
    pruned: list[str] = []
    for entry in entries:
        if entry.kind in _TOOLS and is_blank(entry):
            pruned.append(f"@{entry.version}")
        elif entry.kind in _TOOLS:
            call = told(thread_id, entry, decode_called).call
            calls[call.id] = call.name
    return [*calls.values(), *([f"tools of pruned entries ({', '.join(pruned)})"] if pruned else [])]
