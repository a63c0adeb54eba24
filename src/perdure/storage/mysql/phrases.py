"""The statements that a save is made of, with the values of their places.

Whether a statement does its work is told by the line itself (`where`), never by what the statement before it did: a
server whose client is gone goes on to the end of a text, and forgets on the way how many rows it changed.

`UPDATE` assigns from left to right: the digest comes first, it is made from the line as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.core.checkpoint import CheckpointMark
from perdure.core.digest import header_rest
from perdure.core.entries import STATE_KINDS, EntryKind, NewEntry
from perdure.core.threads import ThreadPatch
from perdure.core.writes import Write
from perdure.storage.mysql.dialect import SERVER_NOW
from perdure.storage.sql.rows import Row, metadata_text, tags_text
from perdure.storage.sql.statements import Statements

Phrase = tuple[str, Row]
MOST = 16  # entries in one text
NOW = "CAST(@perdure_now AS SIGNED)"  # the same in all statements of a text
_SET_NOW = "SET @perdure_now = "
_AT = f"GREATEST({NOW}, updated_at)"
# The next digest of the chain, as `core.digest.link` makes it.
_CHAIN = (
    "UNHEX(SHA2(CONCAT(head_digest, UNHEX(LPAD(HEX(head + 1), 16, '0')), "
    f"UNHEX(LPAD(HEX({_AT}), 16, '0')), ?, ?), 256))"
)
_ENTRY = """INSERT INTO {entry}
  ("row", kind, at, actor, write_id, idem_key, request, "schema", payload_digest, chain, payload)
SELECT "row" * 4294967296 + head + 1, ?, {at}, ?, ?, ?, ?, ?, ?, {chain}, ? FROM {thread} WHERE """
_MARK = """INSERT INTO {checkpoint}
  ("row", id, thread, version, kind, status, note, agent, metadata, parent, at)
SELECT "row" * 4294967296 + head + 1, ?, "row", coalesce(?, head + 1), ?, ?, ?, ?, ?, coalesce(?, last_checkpoint), {at}
FROM {thread} WHERE """
_MOVE = "UPDATE {thread} SET head_digest = {chain}, head = head + 1"
_MOVED = ", updated_at = {at} WHERE "


class Phrases:
    """The statements in the words of one database."""

    def __init__(self, sql: Statements, *, server_time: bool) -> None:
        words = {name: sql.dialect.table(name) for name in ("thread", "entry", "checkpoint")}
        words |= {"at": _AT, "chain": _CHAIN}
        self._entry, self._mark = _ENTRY.format(**words), _MARK.format(**words)
        self._move, self._moved = _MOVE.format(**words), _MOVED.format(**words)
        self._server_time = server_time

    def now(self, write: Write) -> Phrase:
        """What time it is."""
        return (_SET_NOW + SERVER_NOW, ()) if self._server_time else (_SET_NOW + "?", (write.micros,))

    def entry(self, write: Write, at: int, where: Phrase) -> Phrase:
        """One entry of a write on top of the line."""
        entry, key = write.entries[at], _key(write, at)
        values = (str(entry.kind), entry.actor, write.write_id, *key, entry.schema, entry.digest)
        return self._entry + where[0], (*values, *_link(write, at), entry.payload, *where[1])

    def mark(self, mark: CheckpointMark, where: Phrase) -> Phrase:
        """The checkpoint that rides on the entry above."""
        described = (mark.id, mark.version, mark.kind, mark.status, mark.note, mark.agent, mark.metadata)
        return self._mark + where[0], (*described, mark.parent or None, *where[1])

    def move(self, write: Write, at: int, where: Phrase) -> Phrase:
        """The head on that entry; with the last one, all that the write changes besides."""
        sets, values = self._changes(write, at)
        return self._move + sets + self._moved + where[0], (*_link(write, at), *values, *where[1])

    def _changes(self, write: Write, at: int) -> Phrase:
        """What of the line changes with an entry, besides its head."""
        is_last = at == len(write.entries) - 1
        changes = [*_entry_changes(write.entries[at]), *(self._other_changes(write) if is_last else ())]
        return "".join(f", {text}" for text, _ in changes), tuple(value for _, given in changes for value in given)

    def _other_changes(self, write: Write) -> Iterator[Phrase]:
        if write.checkpoint is not None:
            yield "last_checkpoint = ?", (write.checkpoint.id,)
        if write.epoch is not None and write.renew_until:
            late: Phrase = (f" + {_AT} - ?", (write.micros,)) if self._server_time else ("", ())
            yield f"lease_until = GREATEST(lease_until, ?{late[0]})", (write.renew_until, *late[1])
        if write.patches:
            yield from _patched(write.patch)


def _key(write: Write, at: int) -> Row:
    return (write.idem_key, write.request) if at == 0 else (None, None)


def _link(write: Write, at: int) -> tuple[bytes, bytes]:
    """The rest of an entry's header and the digest of its payload: the end of what its chain digest is made from."""
    entry = write.entries[at]
    return header_rest(entry, write.write_id, *_key(write, at)), entry.digest


def _entry_changes(entry: NewEntry) -> Iterator[Phrase]:
    if entry.kind in STATE_KINDS:
        yield "head_state_version = head", ()
    if entry.kind is EntryKind.RUN_STARTED:
        yield "run_version = head", ()


def _patched(patch: ThreadPatch) -> Iterator[Phrase]:
    tags = None if patch.tags is None else tags_text(patch.tags)
    metadata = None if patch.metadata is None else metadata_text(patch.metadata)
    given = {
        "name": patch.name, "agent": patch.agent, "tags": tags, "status": patch.status, "attempts": patch.attempts,
        "metadata": metadata, "quarantined_at": patch.quarantined_at,
    }  # fmt: skip
    if patch.wake_at is not None and patch.if_status is not None:
        yield "wake_at = IF(status = ?, ?, wake_at)", (patch.if_status, patch.wake_at or None)
    elif patch.wake_at is not None:
        yield "wake_at = ?", (patch.wake_at or None,)
    if patch.trusted:
        yield "quarantined_at = NULL", ()
    for column, value in given.items():
        if value is not None:
            yield f"{column} = ?", (value,)
