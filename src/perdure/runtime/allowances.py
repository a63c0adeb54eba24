"""Making, finding, using and revoking allowances, on the log of each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from perdure.checkpoints.requests import Request
from perdure.core.allowances import (
    ALLOWANCES,
    MOST,
    Allowed,
    Revoked,
    Used,
    decode_allowed,
    decode_revoked,
    is_granted,
)
from perdure.core.approval_terms import Terms
from perdure.core.approvers import Approver
from perdure.core.calls import told
from perdure.core.codec import decode_known
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.core.identity import ThreadKey, reserved_namespace, reserved_of
from perdure.core.payload import encode_body
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.core.times import to_datetime
from perdure.runtime.expecting import until

if TYPE_CHECKING:
    from perdure.checkpoints.engine import Engine
    from perdure.runtime.run import Run
    from perdure.runtime.runtime import Runtime

_ACTIVE, _REVOKED = "active", "revoked"
_PAGE = 200


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that somebody approved in advance. True while it can be used."""

    id: str
    tool: str
    by: str
    arguments: Mapping[str, Any]
    at: datetime
    expires: datetime | None = None
    count: int | None = None  # None for any number of calls
    used: int = 0  # of a number of calls
    user: Any = None  # whose threads it holds for; None for everybody's
    run: str | None = None  # the only run it holds for
    status: str = _ACTIVE  # "active", "expired", "used up" or "revoked"
    revoked_by: str | None = None

    def __bool__(self) -> bool:
        return self.status == _ACTIVE


class _Log(msgspec.Struct, frozen=True):
    """An allowance as its log tells it."""

    row: ThreadRow
    allowed: Allowed
    made: Entry
    uses: dict[str, int]  # the version of each, by the key of its call
    revoked: tuple[int, str] | None

    @property
    def used(self) -> int:
        before = [each for each in self.uses.values() if self.revoked is None or each < self.revoked[0]]
        return min(len(before), self.allowed.count or len(before))

    def status(self, now: int) -> str:
        if self.revoked is not None:
            return _REVOKED
        if self.allowed.is_expired(now):
            return "expired"
        return "used up" if self.allowed.count and self.used >= self.allowed.count else _ACTIVE


class Allowances:
    """The allowances of a store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._storage = runtime.storage

    async def make(self, namespace: str, allowed: Allowed) -> str:
        """Keep an allowance; one that stands under its id already is left as it is."""
        engine = self._runtime.engine
        entry = engine.entry(EntryKind.ALLOWANCE_MADE, encode_body(allowed), allowed.by)
        key = ThreadKey(reserved_namespace(ALLOWANCES, namespace), allowed.user or "", allowed.id)
        await engine.speak(key, [entry], Request(key=_MADE, patch=ThreadPatch(status=_ACTIVE)))
        return allowed.id

    async def listed(self, namespace: str, user: str | None, shown: Any, *, ended: bool) -> list[Allowance]:
        """Those of a namespace, or of one user; with `ended` also those that cannot be used any more."""
        rows = await self._rows(namespace, user, None if ended else _ACTIVE)
        now, logs = self._runtime.clock.now(), [await self._log(row) for row in rows]
        found = [_shown(each, now, shown) for each in logs if each is not None]
        return [each for each in found if ended or each]

    async def revoke(self, namespace: str, user: str | None, allowance: str, by: str, shown: Any) -> Allowance:
        """End an allowance. Calls that used it already are not undone. Raises `NotFoundError`."""
        log = await self._found(namespace, user, allowance)
        if log is None:
            raise NotFoundError(f"allowance {allowance}", "store.allowed() lists them")
        if log.revoked is None:
            await end(self._runtime.engine, log.row, by)
            log = await self._log(log.row) or log
        return _shown(log, self._runtime.clock.now(), shown)

    async def take(self, run: Run, call: str, terms: Terms) -> Allowed | None:
        """The allowance that a call runs under, if there is one; of several the one that was made last."""
        key, now = run.journal.key, self._runtime.clock.now()
        rows = [row for user in sorted({"", key.user}) for row in await self._rows(key.namespace, user, _ACTIVE)]
        for row in sorted(rows, key=lambda each: each.uid, reverse=True):
            with self._runtime.engine.damage_log.skip(row):
                log = await self._log(row)
                if log is None or not log.allowed.matches(terms, key.user, run.id, now):
                    continue
                if await self._is_taken(log, run.journal.uid, call):
                    return log.allowed
        return None

    async def still_holds(self, run: Run, allowance: str, call: str, terms: Terms) -> bool:
        """Whether a call that an allowance was taken for may run under it: it may have been revoked since."""
        key = run.journal.key
        log = await self._found(key.namespace, None, allowance)
        if log is None or not log.allowed.matches(terms, key.user, run.id, self._runtime.clock.now()):
            return False
        return await self._is_taken(log, run.journal.uid, call)

    async def _is_taken(self, log: _Log, uid: str, call: str) -> bool:
        """Take one use for a call, once however often it is asked for; False where there is none left."""
        if not log.allowed.count:
            return log.revoked is None
        key = _use_key(uid, call)
        if key not in log.uses:
            if log.status(self._runtime.clock.now()) != _ACTIVE:
                return False
            engine = self._runtime.engine
            entry = engine.entry(EntryKind.ALLOWANCE_USED, encode_body(Used(uid, call)), None)
            await engine.speak(log.row.key, [entry], Request(key=key, uid=log.row.uid))
            log = await self._log(log.row) or log
        place = log.uses.get(key)
        if place is None or log.revoked is not None:
            return False
        return is_granted(place, log.uses.values(), log.allowed.count)

    async def _rows(self, namespace: str, user: str | None, status: str | None) -> list[ThreadRow]:
        """Their threads, newest first."""
        query = ThreadQuery(namespace=reserved_namespace(ALLOWANCES, namespace), user=user, status=status, limit=_PAGE)
        rows = page = await self._storage.threads(query)
        while len(page) == _PAGE and len(rows) < MOST:
            page = await self._storage.threads(msgspec.structs.replace(query, before=(page[-1].updated, page[-1].uid)))
            rows = [*rows, *page]
        return rows

    async def _found(self, namespace: str, user: str | None, allowance: str) -> _Log | None:
        rows = await self._storage.find(reserved_namespace(ALLOWANCES, namespace), allowance)
        mine = [row for row in rows if user is None or row.key.user == user]
        return await self._log(mine[0]) if mine else None

    async def _log(self, row: ThreadRow) -> _Log | None:
        """What its log says. One that was imported counts for nothing."""
        if row.is_quarantined:
            return None
        entries = await self._storage.entries(row.key)
        made = next((each for each in entries if each.kind is EntryKind.ALLOWANCE_MADE), None)
        if made is None:
            return None
        allowed = told(row.key.id, made, decode_allowed)
        uses = {each.key: each.version for each in entries if each.kind is EntryKind.ALLOWANCE_USED and each.key}
        ends = [each for each in entries if each.kind is EntryKind.ALLOWANCE_REVOKED]
        revoked = (ends[0].version, told(row.key.id, ends[0], decode_revoked).by) if ends else None
        return _Log(row, allowed, made, uses, revoked) if allowed.id == row.key.id else None


_MADE = "m.1"


async def end(engine: Engine, row: ThreadRow, by: str) -> None:
    """Revoke the allowance that a thread of the library's own is."""
    entry = engine.entry(EntryKind.ALLOWANCE_REVOKED, encode_body(Revoked(by)), by)
    await engine.speak(row.key, [entry], Request(uid=row.uid, patch=ThreadPatch(status=_REVOKED)))


def is_active(row: ThreadRow) -> bool:
    """Whether a thread is an allowance that nobody has revoked."""
    reserved = reserved_of(row.key.namespace)
    return reserved is not None and reserved.kind == ALLOWANCES and row.status == _ACTIVE


def _use_key(uid: str, call: str) -> str:
    return f"u.{uid}.{call}"


def _shown(log: _Log, now: int, shown: Any) -> Allowance:
    allowed = log.allowed
    return Allowance(
        id=allowed.id, tool=allowed.tool, by=allowed.by, arguments=decode_known(bytes(allowed.arguments)),
        at=to_datetime(log.made.micros), expires=to_datetime(allowed.expires) if allowed.expires else None,
        count=allowed.count or None, used=log.used, user=None if allowed.user is None else shown(allowed.user),
        run=allowed.run, status=log.status(now), revoked_by=log.revoked[1] if log.revoked else None,
    )  # fmt: skip


def allowance_of(
    id: str,
    tool: str,
    owner: Approver,
    arguments: bytes,
    *,
    now: int,
    expires: timedelta | datetime | None,
    count: int | None,
    user: str | None,
    schema: str = "",
) -> Allowed:
    """An allowance as it is kept; raise `InvalidInputError` for what cannot be."""
    if count is not None and (type(count) is not int or not 1 <= count <= MOST):
        raise InvalidInputError(f"count must be an int from 1 to {MOST}, or None for any number, not {count!r}")
    ends = until(expires, now, "expires")
    if ends and ends <= now:
        raise InvalidInputError(f"expires must be in the future, not {expires!r}")
    return Allowed(id, tool, owner.name, owner.groups, Raw(arguments), schema, ends, count or 0, user)
