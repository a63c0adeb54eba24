"""A log written anew: what its lines become, and where the records go among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from perdure.core.pruning import Record
from perdure.storage.file.bodies import payload_of, shown
from perdure.storage.file.disk import File
from perdure.storage.file.index import Index
from perdure.storage.file.lines import Indexed, Line, RecordHead, checksum, lean, written

_BATCH = 1 << 20  # bytes that are written at a time

Change = Callable[[Line], Line | None]  # what becomes of a line, with its bodies or without; None: it goes


class Piece(NamedTuple):
    """A line as it is written, and without its bodies."""

    text: bytes
    line: Line


def piece_of(line: Line) -> Piece:
    """A line to write."""
    return Piece(written(line), lean(line))


def record_line(record: Record) -> Line:
    """A record as it is written: readable, and to the byte."""
    text = shown(record.payload)
    head = RecordHead(
        record.low, record.version, record.chain, record.digest, len(record.payload), record.whole, record.blobs
    )
    return Line(record=head, payload=(text,), sealed=None if payload_of(text) == record.payload else record.payload)


def record_of(head: RecordHead, line: Line) -> Record:
    """The record again; raise `CannotRead` when the line has no body of one."""
    return Record(
        low=head.low,
        version=head.version,
        chain=head.chain,
        digest=head.digest,
        payload=line.sealed if line.sealed is not None else payload_of(line.payload[0]),
        whole=head.whole,
        blobs=head.blobs,
    )


def next_edition(edition: int, change: Change) -> Change:
    """The same change, and the first line tells that the log is another one."""

    def changed(line: Line) -> Line | None:
        new = change(line)
        return msgspec.structs.replace(new, edition=edition) if new and _is_first(line) else new

    return changed


def among(pieces: Iterable[Piece], records: Iterable[Record]) -> Iterator[Piece]:
    """Put each record behind the entries it stands for, so that a log that is cut after these still has it."""
    waiting = deque(sorted(records, key=lambda record: record.version))
    for piece in pieces:
        while waiting and _is_behind(piece.line, waiting[0].version):
            yield piece_of(record_line(waiting.popleft()))
        yield piece
    yield from (piece_of(record_line(record)) for record in waiting)


def _is_behind(line: Line, version: int) -> bool:
    if line.record is not None:
        return line.record.version >= version
    return not _is_first(line) and bool(line.entries) and line.entries[0].version > version


def _is_first(line: Line) -> bool:
    return isinstance(line.changed.uid, str)


def write_anew(file: File, pieces: Iterable[Piece], edition: int) -> Index:
    """Write a whole log, and return its index."""
    index, batch, size = Index(file.stat().inode, edition), list[bytes](), 0
    for text, line in pieces:
        index.add(Indexed(index.end, len(text), checksum(text), line, edition))
        batch.append(text)
        size += len(text)
        if size >= _BATCH:
            file.write(index.end - size, b"".join(batch))
            batch, size = [], 0
    if batch:
        file.write(index.end - size, b"".join(batch))
    return index
