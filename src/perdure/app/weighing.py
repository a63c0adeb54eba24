"""Reading what is needed to say where the bytes of a thread or a store are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from heapq import nlargest

import msgspec

from perdure.app.copying import Choice, chosen
from perdure.core import blobs
from perdure.core.digest import body_of
from perdure.core.document import Document
from perdure.core.entries import Entry
from perdure.core.errors import DamagedError, InvalidInputError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import is_blank
from perdure.core.threads import ThreadRow
from perdure.core.weights import KindSize, StoreSizes, ThreadSizes, ThreadTotal, weigh
from perdure.storage.contract import Storage
from perdure.storage.listing import all_threads

_PAGE = 500  # entries
_FEW = 8  # large values at a time

Told = Callable[[int, int], None]  # how many threads were weighed, of how many


async def weigh_thread(storage: Storage, row: ThreadRow, version: int, document: Document, depth: int) -> ThreadSizes:
    """Where the bytes of a thread are, and of its state as the document has it. Its own log is read once."""
    log, after = _Log(), row.parent_version
    while after < row.head:
        page = await storage.entries(row.key, after=after, limit=min(_PAGE, row.head - after))
        if not page:
            break  # deleted meanwhile
        log.add(row.key, page)
        after = page[-1].version
    large = await _large(storage, row.key, list(log.large))
    return ThreadSizes(
        id=row.key.id,
        version=version,
        totals=await storage.sizes(row.key),
        log=log.kinds(),
        large_values=large[0],
        large_bytes=large[1],
        state=weigh(document.close(), depth),
    )


class _Log:
    """What the entries of a log weigh, and which large values they refer to."""

    def __init__(self) -> None:
        self.large: dict[bytes, None] = {}
        self._entries: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, key: ThreadKey, entries: Iterable[Entry]) -> None:
        """Count some more."""
        for entry in entries:
            self._entries[entry.kind.value] += 1
            self._bytes[entry.kind.value] += len(entry.payload or b"")
            if not is_blank(entry):
                self.large.update(dict.fromkeys(blobs.referred(body_of(key.id, entry))))

    def kinds(self) -> tuple[KindSize, ...]:
        """What each kind weighs, the heaviest first."""
        found = [KindSize(kind=kind, entries=count, bytes=self._bytes[kind]) for kind, count in self._entries.items()]
        return tuple(sorted(found, key=lambda each: (-each.bytes, each.kind)))


async def _large(storage: Storage, key: ThreadKey, digests: Sequence[bytes]) -> tuple[int, int]:
    """How many of these large values there are, and what they weigh as stored."""
    found: list[int] = []
    for start in range(0, len(digests), _FEW):  # they may be large indeed: never all of them at once
        found += map(len, (await storage.blobs(key, digests[start : start + _FEW])).values())
    return len(found), sum(found)


async def weigh_store(
    storage: Storage, namespace: str | None, threads: int, progress: Told | None = None
) -> StoreSizes:
    """Where the bytes of a storage are, with the heaviest threads of a namespace (None: of all)."""
    if type(threads) is not int or threads < 0:
        raise InvalidInputError(f"threads must be an int from 0 on, not {threads!r}")
    totals = msgspec.structs.asdict(await storage.sizes())
    return StoreSizes(**totals, largest=await _heaviest(storage, namespace, threads, progress) if threads else ())


async def _heaviest(
    storage: Storage, namespace: str | None, count: int, progress: Told | None
) -> tuple[ThreadTotal, ...]:
    rows = await (chosen(storage, Choice()) if namespace is None else all_threads(storage, namespace, None))
    found: list[ThreadTotal] = []
    for done, row in enumerate(rows, 1):
        with suppress(DamagedError):  # what nobody can read has no size; `damaged` and `verify` name it
            found.append(await _total(storage, row))
        found = nlargest(count, found, key=lambda each: each.bytes)
        if progress is not None:
            progress(done, len(rows))
    return tuple(found)


async def _total(storage: Storage, row: ThreadRow) -> ThreadTotal:
    sizes, key = await storage.sizes(row.key), row.key
    weight = sizes.entry_bytes + sizes.snapshot_bytes
    return ThreadTotal(
        id=key.id, user=key.user, namespace=key.namespace, version=row.head, entries=sizes.entries, bytes=weight
    )  # fmt: skip
