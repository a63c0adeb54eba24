"""The directory line of a thread: its name, tags, status and metadata, and how threads are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from perdure.app.talking import Talking
from perdure.app.users import UserId
from perdure.core.checkpoint import check_limit, check_metadata, has_metadata, metadata_in
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_id, check_label
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.core.times import to_datetime
from perdure.core.writes import Sizes
from perdure.storage.contract import Storage

_PAGE = 200


class ThreadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a thread without reading its state."""

    id: str
    user: UserId | None
    name: str | None
    agent: str | None
    tags: tuple[str, ...]
    status: str
    version: int
    state_version: int
    created: datetime
    updated: datetime
    forked_from: int | None  # the version of its parent it began at
    metadata: Mapping[str, Any] = {}
    sizes: Sizes | None = None  # a list does not weigh its threads
    quarantined: datetime | None = None  # since when an imported thread waits for somebody who trusts it
    origin: str | None = None  # SHA-256 of the file it was imported from


def info_of(row: ThreadRow, user: UserId | None, sizes: Sizes | None = None) -> ThreadInfo:
    """A directory line for people."""
    return ThreadInfo(
        id=row.key.id, user=user, name=row.name, agent=row.agent, tags=row.tags, status=row.status, version=row.head,
        state_version=row.state_version, created=to_datetime(row.created), updated=to_datetime(row.updated),
        forked_from=row.parent_version if row.parent_uid else None, metadata=metadata_of(row), sizes=sizes,
        quarantined=None if row.quarantined_at is None else to_datetime(row.quarantined_at), origin=row.origin,
    )  # fmt: skip


def metadata_of(row: ThreadRow) -> dict[str, Any]:
    """The metadata of a thread."""
    return metadata_in(row.metadata)


class Naming(Talking):
    """The part of a thread that is about how it is found."""

    async def change(
        self,
        *,
        name: str | None = None,
        tags: Iterable[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Change what the directory says of the thread, made when there is none, and return the version.

        None leaves a field as it is. Metadata replaces what was there.
        """
        patch = ThreadPatch(
            name=check_label(name, "name"),
            status=check_label(status, "status"),
            agent=check_label(agent, "agent"),
            tags=None if tags is None else check_tags(tags),
            metadata=None if metadata is None else check_metadata(metadata),
        )
        kept = None if metadata is None else dict(metadata)
        told = {"name": name, "status": status, "agent": agent, "tags": patch.tags, "metadata": kept}
        body = encode({field: value for field, value in told.items() if value is not None}, root="thread")
        entry = self._parts.engine.entry(EntryKind.THREAD_CHANGED, body, self._actor)
        key = await self._found()
        request = msgspec.structs.replace(self._request(None, None), patch=_over(self._patch, patch))
        return (await self._parts.engine.speak(key, [entry], request)).version

    async def rename(self, name: str) -> int:
        """Give the thread another name."""
        return await self.change(name=name)


def _over(below: ThreadPatch, above: ThreadPatch) -> ThreadPatch:
    """Both in one; what `above` leaves as it is comes from `below`."""
    given = {name: value for name in above.__struct_fields__ if (value := getattr(above, name)) is not None}
    return msgspec.structs.replace(below, **given)


def check_tags(tags: object) -> tuple[str, ...]:
    """Return tags that can be kept."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidInputError(f"tags must be a list of str, not {tags!r}")
    return tuple(check_id(tag, "a tag") for tag in tags)


async def listed(
    storage: Storage, query: ThreadQuery, metadata: Mapping[str, Any] | None, search: str | None = None, offset: int = 0
) -> list[ThreadRow]:
    """The directory, newest first: those whose metadata has these values, and whose name or id holds a text."""
    found: list[ThreadRow] = []
    wanted = check_limit(query.limit) + offset
    page = msgspec.structs.replace(query, search=search, limit=max(_PAGE, wanted) if metadata else wanted)
    while page.limit and (rows := await storage.threads(page)):
        found += [row for row in rows if _has(row, metadata)]
        if len(found) >= wanted or len(rows) < page.limit:
            break
        page = msgspec.structs.replace(page, before=(rows[-1].updated, rows[-1].uid))
    return found[offset:wanted]


def _has(row: ThreadRow, metadata: Mapping[str, Any] | None) -> bool:
    return not metadata or has_metadata(row.metadata or check_metadata(None), metadata)
