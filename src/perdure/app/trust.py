"""Trusting imported threads: what that would set going first, then the entry that ends their quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.checkpoints.requests import Request
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError, NotFoundError, VersionConflictError
from perdure.core.identity import ThreadKey, callers_namespace, check_label
from perdure.core.threads import ThreadPatch, ThreadRow
from perdure.core.trust_preview import KINDS, TrustPreview, preview
from perdure.storage.listing import all_threads

if TYPE_CHECKING:
    from perdure.app.parts import Parts


async def preview_trust(parts: Parts, key: ThreadKey) -> tuple[ThreadRow, TrustPreview]:
    """The row of a thread and what trusting it would set going; raise `NotFoundError`."""
    row = await parts.storage.thread(key)
    if row is None:
        raise NotFoundError(f"thread {key.id!r}")
    entries = await parts.storage.entries(key, kinds=KINDS)
    # Entries that came after the row was read do not belong to the version that is trusted.
    known = [entry for entry in entries if entry.version <= row.head]
    headers = await parts.storage.headers(key, at=row.head, limit=max(row.head, 1))
    return row, preview(row, parts.users.shown(key.user), known, headers)


async def trust(parts: Parts, key: ThreadKey, by: str, version: int | None) -> TrustPreview:
    """End the quarantine of a thread as it stands at a version, and return what that set going.

    Raises `VersionConflictError` when something was written to it since then.
    """
    row, found = await preview_trust(parts, key)
    if version is not None and version != row.head:
        told = f"thread {key.id!r} is at version {row.head}, you saw {version}; look again at what trusting sets going"
        raise VersionConflictError(key.id, version, row.head, told)
    if row.is_quarantined:
        body = encode({"version": row.head, "origin": row.origin, "origin_version": row.origin_version})
        entry = parts.engine.entry(EntryKind.THREAD_TRUSTED, body, by)
        request = Request(actor=by, uid=row.uid, head=row.head, patch=ThreadPatch(trusted=True))
        await parts.engine.speak(key, [entry], request)
    return found


async def from_file(parts: Parts, namespace: str, user: str | None, origin: str) -> list[ThreadKey]:
    """The quarantined threads that came from a file, forks of them and what is kept beside them included."""
    found: list[ThreadKey] = []
    for each in await parts.storage.namespaces():
        if callers_namespace(each) == namespace:
            rows = await all_threads(parts.storage, each, user)
            found += [row.key for row in rows if row.is_quarantined and row.origin == origin]
    return found


def check_by(by: object) -> str:
    """Return the name of who trusts; it stands in the log."""
    checked = check_label(by, "by")
    if not checked:
        raise InvalidInputError("say who trusts the thread: by=…")
    return checked
