"""Which thread, point or pause a typed id means: the whole id, or a beginning of it that only one has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from perdure.app import store as app
from perdure.app.store import parts_of
from perdure.app.users import UserId
from perdure.cli.common_options import inner, run_in, user_of
from perdure.cli.output import write_error
from perdure.cli.problems import AmbiguousIdError
from perdure.core import refs
from perdure.core.errors import AmbiguousThreadError, InvalidInputError, InvalidRefError, NotFoundError
from perdure.core.identity import ThreadKey, check_id, check_namespace
from perdure.core.pauses import parts_of as parts_of_pause
from perdure.core.retention_words import shown
from perdure.core.threads import ThreadQuery, ThreadRow
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.sync import Perdure
from perdure.sync.thread import Thread

SHORT_ID_CHARS = 12
_SHORTEST_PAUSE_PREFIX = 4  # nobody decides by a slip of the finger
_PAGE_ROWS, _CANDIDATES = 500, 10
_RUNS_SEARCHED = _POINTS_SEARCHED = _PAUSES_SEARCHED = 10_000
_GENERATED = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?:[a-z]{2,8}[_-])?[0-9a-zA-Z]{24,64}")


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Ids as lists show them: their first characters, 12 or as many as tell those of the list apart."""
    whole = sorted(set(ids))
    found: dict[str, str] = {}
    for at, each in enumerate(whole):
        near = (whole[at - 1] if at else "", *whole[at + 1 : at + 2])
        size = max([SHORT_ID_CHARS, *(_common(each, other) + 1 for other in near)])
        found[each] = each[:size]
    return found


def short_thread(thread: str) -> str:
    """A thread's id as lists show it: those that a program made up are cut, those with a meaning are whole."""
    return thread[:SHORT_ID_CHARS] if _GENERATED.fullmatch(thread) else thread


def find_row(storage: Storage, namespace: str, typed: str, user: str | None) -> ThreadRow:
    """The row of the thread that was typed, on a storage."""
    return drive(_thread_row(storage, check_namespace(namespace), typed, user))


def thread_of(store: Perdure, typed: str, user: str | None, *, exact: bool = False) -> Thread:
    """The handle on the thread that was typed; `exact` refuses a beginning of an id."""
    thread, owner = run_in(store, locate(inner(store), typed, user, exact=exact))
    return store.thread(thread, user=owner)


async def locate(store: app.Perdure, typed: str, user: str | None, *, exact: bool = False) -> tuple[str, UserId | None]:
    """The id and the owner of the thread that was typed."""
    parts = parts_of(store)
    asked = None if user is None else parts.users.key(parts.users.typed(user))
    await parts.ready()
    try:
        row = await _thread_row(parts.storage, store.namespace, typed, asked, exact=exact)
    except NotFoundError:
        if exact or not typed.startswith("run_"):
            raise
        return await _thread_of_run(store, typed, user)
    return row.key.id, parts.users.shown(row.key.user)


def point_of(store: Perdure, typed: str, ref: str | None, user: str | None) -> tuple[Thread, str | None]:
    """The thread and the ref of THREAD@REF, or of THREAD and REF; no ref means now.

    What follows the last @ is taken for a ref if it can be read as one, whatever threads there are: nobody can make a
    thread whose id catches somebody's ref. Where there is no such thread, the whole word is taken for an id.
    """
    if ref is not None:
        thread = thread_of(store, typed, user)
        return thread, whole_ref(thread, ref)
    name, split = refs.split(typed)
    if split is None:
        try:
            return thread_of(store, typed, user), None
        except NotFoundError as exc:
            name, at, text = typed.rpartition("@")
            raise NotFoundError(exc.what, str(InvalidRefError(at + text))) if at and name else exc from None
    try:
        thread = thread_of(store, name, user)
    except NotFoundError as exc:
        try:
            return thread_of(store, typed, user, exact=True), None
        except NotFoundError:
            raise exc from None
    return thread, whole_ref(thread, typed[len(name) :])


def whole_ref(thread: Thread, ref: str) -> str:
    """A ref with the whole id of its checkpoint, where a beginning was typed."""
    parsed = refs.parse(ref)
    if not isinstance(parsed, refs.AtCheckpoint):
        return ref
    points = [each.id for each in thread.history(limit=_POINTS_SEARCHED, everything=True)]
    found = [each for each in points if each.startswith(parsed.id)]
    if parsed.id in points or not found:
        return ref
    return f"@{_only('checkpoints', parsed.id, found)}"


def pause_of(store: Perdure, typed: str) -> str:
    """The whole id of the pause that was typed; a whole id stays as it is, whether that pause is open or not."""
    if parts_of_pause(typed) is not None:
        return typed
    text = typed.removeprefix("pau_")
    if len(text) < _SHORTEST_PAUSE_PREFIX:
        raise InvalidInputError(
            f"{typed!r} is too short for a pause: give at least {_SHORTEST_PAUSE_PREFIX} characters of it"
        )
    open_ones = store.pauses(limit=_PAUSES_SEARCHED)
    found = [each.id for each in open_ones if each.id.removeprefix("pau_").startswith(text)]
    if not found:
        raise NotFoundError(f"pause {typed!r}", "`perdure pauses` lists those that are open")
    return _only("pauses", typed, found)


async def _thread_row(
    storage: Storage, namespace: str, typed: str, user: str | None, *, exact: bool = False
) -> ThreadRow:
    check_id(typed, "the thread id")
    if user is not None:
        row = await storage.thread(ThreadKey(namespace, user, typed))
        rows = [row] if row else []
    else:
        rows = await storage.find(namespace, typed)
    if len(rows) > 1:
        raise AmbiguousThreadError(typed, [row.key.user or None for row in rows])
    if rows:
        return rows[0]
    found = await _beginning_with(storage, ThreadQuery(namespace=namespace, user=user, search=typed), typed)
    ids = list(dict.fromkeys(row.key.id for row in found))
    if exact and len(ids) == 1:
        raise NotFoundError(f"thread {typed!r}", f"{ids[0]!r} begins with it; without a question, give the whole id")
    if not ids or exact:
        raise NotFoundError(f"thread {typed!r}", await _suggestion(storage, namespace, user, typed))
    one = _only("threads", typed, ids)
    if len(found) > 1:
        raise AmbiguousThreadError(one, [row.key.user or None for row in found])
    write_error(f"note: {shown(typed)} is thread {shown(one)}")
    return found[0]


async def _beginning_with(storage: Storage, query: ThreadQuery, typed: str) -> list[ThreadRow]:
    found: list[ThreadRow] = []
    page = replace(query, limit=_PAGE_ROWS)
    while len(found) <= _CANDIDATES and (rows := await storage.threads(page)):
        found += [row for row in rows if row.key.id.startswith(typed)]
        if len(rows) < _PAGE_ROWS:
            break
        page = replace(page, before=(rows[-1].updated, rows[-1].uid))
    return found


async def _suggestion(storage: Storage, namespace: str, user: str | None, typed: str) -> str:
    rows = await storage.threads(ThreadQuery(namespace=namespace, user=user, limit=_PAGE_ROWS))
    near = get_close_matches(typed, [row.key.id for row in rows], 1)
    return f"did you mean {near[0]!r}?" if near else ""


async def _thread_of_run(store: app.Perdure, typed: str, user: str | None) -> tuple[str, UserId | None]:
    runs = await store.runs(_RUNS_SEARCHED, user=user_of(user, store))
    found = [each for each in runs if each.id.startswith(typed)]
    if not found:
        raise NotFoundError(f"run {typed!r}")
    one = _only("runs", typed, [each.id for each in found])
    return next((each.thread, each.user) for each in found if each.id == one)


def _only(what: str, typed: str, found: Sequence[str]) -> str:
    """The only id; an id that is whole wins over those that begin with it."""
    if typed in found or len(found) == 1:
        return typed if typed in found else found[0]
    short = short_ids(found) if what != "threads" else {each: each for each in found}
    listed = [shown(short[each]) for each in found[:_CANDIDATES]]
    raise AmbiguousIdError(what, typed, listed, len(found) > _CANDIDATES)


def _common(one: str, other: str) -> int:
    size = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        size += 1
    return size
