"""Taking a thread out of a storage, whichever it is: by the calls that every storage has."""

from __future__ import annotations

from perdure.core.blobs import referred
from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.digest import GENESIS, body_of
from perdure.core.entries import Entry
from perdure.core.envelope import unseal
from perdure.core.errors import NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import Record, is_blank
from perdure.core.threads import ThreadRow
from perdure.core.transfer import CopiedBlob, ThreadCopy
from perdure.storage.contract import Storage

_PAGE = 1000  # checkpoints


async def take(
    storage: Storage, key: ThreadKey, *, after: int = 0, chain: bytes = GENESIS, spare_uid: str | None = None
) -> ThreadCopy:
    """A thread as it stands: with its whole history, or with what comes after a version whose chain digest is known.

    What is written meanwhile is left out. Raises `NotFoundError`, and `EntryDamagedError` for a body that fails its
    digest; the links are checked when the copy is put.
    """
    log = await storage.log(key, after=after, checkpoints=True)
    if log is None:
        raise NotFoundError(f"thread {key.id!r}")
    return ThreadCopy(
        row=log.row,
        entries=log.entries,
        checkpoints=log.checkpoints,
        blobs=await _blobs(storage, key, log.entries, log.records),
        records=log.records,
        rewinds=[each for each in log.rewinds if each.entry > after],
        after=after,
        chain=chain,
        spare_uid=spare_uid,
    )


async def checkpoints_after(storage: Storage, row: ThreadRow, after: int) -> list[CheckpointRow]:
    """The checkpoints that ride on the entries after a version, up to the head that the line names, oldest first."""
    found: list[CheckpointRow] = []
    before: str | None = None
    while True:
        page = await storage.checkpoints(row.key, CheckpointQuery(before=before, limit=_PAGE))
        found += [mark for mark in page if after < mark.entry <= row.head]
        if len(page) < _PAGE or page[-1].entry <= after:
            return found[::-1]
        before = page[-1].mark.id


async def _blobs(storage: Storage, key: ThreadKey, entries: list[Entry], records: list[Record]) -> list[CopiedBlob]:
    """The large values that the entries and records refer to; one that is gone is missing here too."""
    bodies = [(entry.version, body_of(key.id, entry)) for entry in entries if not is_blank(entry)]
    bodies += [(record.version, unseal(record.payload)) for record in records]
    first: dict[bytes, int] = {}
    for version, body in sorted(bodies, key=lambda each: each[0]):
        for digest in referred(body):
            first.setdefault(digest, version)
    found = await storage.blobs(key, list(first)) if first else {}
    return [CopiedBlob(digest, payload, first[digest]) for digest, payload in found.items()]
