"""Exports as somebody would forge them: every digest in them is right, and what they say is not true.

A generator reads a real export, changes what it likes and writes a file whose links, digests and counts are those of
the changed threads. Only the key of a store is out of its reach.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from perdure.app.exporting import listed
from perdure.app.importing import digest_of_file
from perdure.core.calls import shown, told
from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.entries import EntryKind, NewEntry
from perdure.core.envelope import seal
from perdure.core.export_keys import key_id
from perdure.core.pauses import Decided, decided_key, decode_opened
from perdure.core.payload import encode_body
from perdure.core.portable import Contents, Packer, Unpacker, first_line
from perdure.core.portable_threads import copies, records_of
from perdure.core.runs import DECIDED, QUEUED, RUNNING, Started
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy
from perdure.core.writes import Write, stamped

STRANGER = bytes(range(32))  # a key that no store has
LONG_AGO = 1  # a timer that is due


def read(path: Path) -> tuple[Contents, list[ThreadCopy]]:
    """The threads of an export."""
    with path.open("rb") as file:
        source = Unpacker(file)
        return source.contents, list(copies(source.records()))


def write(path: Path, threads: Sequence[ThreadCopy], *, key: bytes | None = None, claims: str | None = None) -> Path:
    """A file of these threads, signed with a key, or one that only claims to be signed with that of an id."""
    packer, parts, ids = Packer(), [], dict[str, str]()
    names = []
    for copy in threads:
        parts += [block for record in records_of(copy) for block in packer.add(record)]
        names.append(listed(copy, ids))
        ids[copy.row.uid] = copy.row.key.id
    signs = key or (STRANGER if claims else None)
    named = claims or (key_id(signs) if signs else "")
    line = first_line(Contents(release="0.1.0", created="2026-11-01T12:00:00+00:00", key=named, threads=names))
    path.write_bytes(line + b"".join(parts) + b"".join(packer.end(line, signs)))
    return path


def rewritten(path: Path, change: Any, **signed: Any) -> Path:
    """A file in which each thread of another was changed by a function."""
    _, threads = read(path)
    return write(path.with_suffix(".forged"), [change(copy) for copy in threads], **signed)


def with_row(copy: ThreadCopy, **fields: Any) -> ThreadCopy:
    """The thread with other fields of its row, which no digest of the log covers."""
    return msgspec.structs.replace(copy, row=msgspec.structs.replace(copy.row, **fields))


def grown(copy: ThreadCopy, *entries: NewEntry, key: str | None = None, **fields: Any) -> ThreadCopy:
    """The thread with entries after its head, linked as its owner would have linked them."""
    write = Write(
        key=copy.row.key, entries=entries, write_id=os.urandom(8), micros=copy.row.updated + 1, new_uid="",
        idem_key=key, request=None if key is None else digest_of(b"".join(each.digest for each in entries)),
    )  # fmt: skip
    row, made = stamped(copy.row, write)
    return with_row(msgspec.structs.replace(copy, row=row, entries=[*copy.entries, *made]), **fields)


def entry(kind: EntryKind, body: bytes, actor: str | None = "ann") -> NewEntry:
    """An entry with this body."""
    return NewEntry(kind=kind, payload=seal(body), digest=digest_of(body), actor=actor)


def approved(copy: ThreadCopy, args: Any = None, by: str = "ann") -> ThreadCopy:
    """Its first open question approved by somebody who never saw it, and the run due at once."""
    opened = next(told("t", each, decode_opened) for each in copy.entries if each.kind is EntryKind.PAUSE_OPENED)
    edited = args is not None
    body = encode_body(Decided(opened.pause, True, by, edited, Raw(encode(args, root="args"))))
    return grown(
        copy, entry(EntryKind.PAUSE_DECIDED, body, by), key=decided_key(shown(opened.call.id)), status=DECIDED,
        wake_at=LONG_AGO,
    )  # fmt: skip


def injected(copy: ThreadCopy, text: str) -> ThreadCopy:
    """A message that its owner never got, put where an agent reads it."""
    body = encode({"role": "system", "content": text})
    return grown(copy, entry(EntryKind.MESSAGE_ADDED, body, "system"))


def started(copy: ThreadCopy, agent: str, input: Any) -> ThreadCopy:
    """A run of a handler that its owner never started, due at once."""
    body = encode_body(Started("run_forged", agent, None, Raw(encode(input, root="input"))))
    return grown(
        copy, entry(EntryKind.RUN_STARTED, body), status=QUEUED, agent=agent, wake_at=LONG_AGO, attempts=0
    )  # fmt: skip


def forged_rows(row: ThreadRow, agent: str) -> Iterator[dict[str, Any]]:
    """Fields of a row that would make a thread run, or make it look trusted."""
    for status in (QUEUED, RUNNING, DECIDED, "waiting", "failed", "input_required", "idle", row.status):
        yield {"status": status, "wake_at": LONG_AGO, "agent": agent}
        yield {"status": status, "wake_at": row.updated, "agent": agent, "attempts": 4, "epoch": 7}
        yield {"status": status, "wake_at": None, "agent": agent, "lease_owner": "dead", "lease_until": LONG_AGO}
    yield {"wake_at": LONG_AGO, "agent": agent, "status": DECIDED, "quarantined_at": None, "origin": None}
    yield {"wake_at": LONG_AGO, "agent": agent, "status": DECIDED, "quarantined_at": 1, "origin": "ab" * 32}


def washed(path: Path) -> Path:
    """A file that says of its threads that they were never imported."""
    return rewritten(path, lambda copy: with_row(copy, quarantined_at=None, origin=None, origin_version=0))


def origin_of(path: Path) -> str:
    """What a thread of this file has for an origin."""
    return digest_of_file(path)
