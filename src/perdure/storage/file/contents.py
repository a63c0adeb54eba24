"""The bodies of a log that is held: found through its index, checked when they are read."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from perdure.core.digest import digest_of
from perdure.core.entries import Entry
from perdure.core.envelope import EnvelopeError, unseal
from perdure.core.errors import EntryDamagedError
from perdure.core.pruning import BLANK, Record
from perdure.core.render import CannotRead
from perdure.storage.file.bodies import payload_of
from perdure.storage.file.disk import File
from perdure.storage.file.index import Index, Kept
from perdure.storage.file.lines import CannotReadLine, Header, Indexed, Line, checked, checksum, entry_of
from perdure.storage.file.rewriting import record_of

_LINE = msgspec.json.Decoder(Line)


class Contents:
    """What the lines of a log say."""

    def __init__(self, file: File, index: Index) -> None:
        self._file = file
        self._index = index

    def entries(self, headers: Iterable[Header], bodies: bool = True) -> list[Entry]:
        """The entries of these headers; those that do not change the state without payload unless `bodies`."""
        lines: dict[int, Line] = {}
        return [self._entry(header, lines, bodies) for header in headers]

    def _entry(self, header: Header, lines: dict[int, Line], bodies: bool) -> Entry:
        lean_entry = entry_of(header, None)
        if not bodies and not lean_entry.changes_state:
            return lean_entry
        if header.is_blank:
            return entry_of(header, BLANK)
        item, position = self._index.place(header.version)
        if item.at not in lines:
            lines.clear()
            lines[item.at] = self.line(item, header.version)
        return entry_of(header, self._payload(header, lines[item.at].payload[position]))

    def record(self, kept: Kept) -> Record:
        """A record with its payload."""
        try:
            return record_of(kept.head, self.line(kept.item))
        except CannotRead as exc:
            raise self._damaged(kept.head.version, f"has a record that {exc}") from exc

    def line(self, item: Indexed, version: int | None = None) -> Line:
        """A whole line, as it was when the index was made; an error names `version`, or where the line begins."""
        data = self._file.read(item.at, item.size)
        try:
            if checksum(data) != item.sum:
                raise CannotReadLine("fails its checksum")
            return checked(data, _LINE)
        except CannotReadLine as exc:
            raise self._damaged(item.line.begins_at if version is None else version, str(exc)) from exc

    def _payload(self, header: Header, text: msgspec.Raw) -> bytes:
        try:
            payload = payload_of(text, header.packed)
        except CannotRead as exc:
            raise self._damaged(header.version, str(exc)) from exc
        if not _holds(payload, header.digest):
            raise self._damaged(header.version, "fails its digest")
        return payload

    def _damaged(self, version: int, reason: str) -> EntryDamagedError:
        return EntryDamagedError(self._index.row.key.id, version, reason)


def _holds(payload: bytes, digest: bytes) -> bool:
    try:
        return digest_of(unseal(payload)) == digest
    except EnvelopeError:
        return True  # encrypted, or newer than this release: only its reader can tell
