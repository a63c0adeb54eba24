"""Reading what models cost out of the logs: which entries tell of it, and whose they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import date
from typing import TYPE_CHECKING

from perdure.core.calls import Answered, decode_failure, decode_outcome, told
from perdure.core.damage_log import damage_of
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import DamagedError, EntryDamagedError
from perdure.core.model_calls import decode_model_called
from perdure.core.pruning import is_blank
from perdure.core.runs import decode_ended, decode_resumed, decode_started
from perdure.core.threads import ThreadRow
from perdure.core.times import to_datetime
from perdure.core.usage import Place, Prices, UsageBy, UsageReport, UsageSum, Use
from perdure.core.verification import Damage
from perdure.storage.contract import Storage
from perdure.storage.listing import all_threads

if TYPE_CHECKING:
    from perdure.app.parts import Parts

Progress = Callable[[int, int], None]  # how many threads are read, of how many
_PAGE = 500
_MOST_TOKENS = 1 << 50
_CALLS = (EntryKind.MODEL_CALLED,)
_RETRIES = (EntryKind.STEP_FAILED, EntryKind.TOOL_FAILED, EntryKind.RUN_FAILED, EntryKind.RUN_RESUMED)


async def usage_of(
    parts: Parts, namespace: str, user: str | None, by: UsageBy, prices: Prices, since: int | None, until: int | None,
    progress: Progress | None,
) -> UsageReport:  # fmt: skip
    """Add up what the threads of a namespace, or of one user in it, tell of models.

    Entries that a fork shares with its parent are the parent's. What was imported and is not trusted counts for
    nothing: a stranger's file must not write a bill.
    """
    storage, damage_log = parts.storage, parts.engine.damage_log
    skipped: list[Damage] = await parts.verifier.unlisted(namespace, user)
    rows = [row for row in await all_threads(storage, namespace, user) if _counts(row, since)]
    total, pruned = UsageSum(by, prices), 0
    for done, row in enumerate(rows, 1):
        reader = _Reader(storage, row, since, until, names_agents=by == "agent")
        try:
            uses = [use async for use in reader.uses()]
        except DamagedError as exc:
            skipped.append(damage_of(row, exc))
            damage_log.add(row, exc)
        else:
            total.add(Place(row.key.id, parts.users.shown(row.key.user)), uses)
            pruned += reader.pruned
        if progress is not None:
            progress(done, len(rows))
    return total.report(skipped, pruned)


def _counts(row: ThreadRow, since: int | None) -> bool:
    is_foreign = row.is_quarantined and row.origin is not None
    return not is_foreign and (since is None or row.updated >= since)


class _Reader:
    """Reads the log of one thread page by page, and only entries that tell of models and failures."""

    def __init__(
        self, storage: Storage, row: ThreadRow, since: int | None, until: int | None, *, names_agents: bool
    ) -> None:  # fmt: skip
        self._storage = storage
        self._row = row
        self._since = since
        self._until = until
        self._names_agents = names_agents
        self._agents: dict[str, str | None] | None = None
        self._failed: set[str] = set()  # runs that failed, and were not taken up again so far
        self._is_late = False  # some requests were written before their answers
        self.pruned = 0

    async def uses(self) -> AsyncIterator[Use]:
        """The calls and retries of the thread."""
        begin = await self._begin()
        async for entry in self._entries(begin, (*_CALLS, *_RETRIES)):
            use = await self._use(entry)
            if use is not None:
                yield use
        if self._is_late:
            async for entry in self._entries(begin, (EntryKind.STEP_FINISHED,)):
                outcome = None if is_blank(entry) else told(self._row.key.id, entry, decode_outcome)
                if outcome is not None and outcome.answered is not None:
                    yield await self._call(entry, outcome.call.run, outcome.answered)

    async def _begin(self) -> int:
        """The version after which entries count: a fork's own begin where it was forked."""
        row = self._row
        begin = row.parent_version if row.parent_uid is not None else 0
        if self._since is None:
            return begin
        before = await self._storage.headers(row.key, until=self._since - 1)
        return max(begin, before[0].version if before else 0)

    async def _entries(self, after: int, kinds: tuple[EntryKind, ...]) -> AsyncIterator[Entry]:
        while True:
            page = await self._storage.entries(self._row.key, after=after, limit=_PAGE, kinds=kinds)
            for entry in page:
                if entry.version > self._row.head or (self._until is not None and entry.micros >= self._until):
                    return  # it was written since the thread was listed, or is later than what is asked for
                yield entry
            if len(page) < _PAGE:
                return
            after = page[-1].version

    async def _use(self, entry: Entry) -> Use | None:
        if is_blank(entry):
            self.pruned += entry.kind in (*_CALLS, EntryKind.STEP_FAILED, EntryKind.TOOL_FAILED)
            return None
        thread = self._row.key.id
        if entry.kind is EntryKind.MODEL_CALLED:
            called = told(thread, entry, decode_model_called)
            self._is_late = self._is_late or called.answered is None
            return None if called.answered is None else await self._call(entry, called.call.run, called.answered)
        if entry.kind is EntryKind.RUN_FAILED:
            self._failed.add(told(thread, entry, decode_ended).run)
            return None
        if entry.kind is EntryKind.RUN_RESUMED:
            run = told(thread, entry, decode_resumed).run
            if run not in self._failed:
                return None
            self._failed.discard(run)
            return await self._retry(entry, run)
        failure = told(thread, entry, decode_failure)
        return await self._retry(entry, failure.call.run) if failure.again else None

    async def _call(self, entry: Entry, run: str, answered: Answered) -> Use:
        tokens = answered.tokens
        if tokens is not None and not all(0 <= each <= _MOST_TOKENS for each in (tokens.input, tokens.output)):
            raise EntryDamagedError(self._row.key.id, entry.version, "has a number of tokens that cannot be")
        return Use(run, await self._agent(run), self._day(entry), answered)

    async def _retry(self, entry: Entry, run: str) -> Use:
        return Use(run, await self._agent(run), self._day(entry), None)

    async def _agent(self, run: str) -> str | None:
        """The handler of a run. Its start may lie before a fork, and holds an input: it is read only where needed."""
        if not self._names_agents:
            return None
        if self._agents is None:
            self._agents = {}
            for entry in await self._storage.entries(self._row.key, kinds=(EntryKind.RUN_STARTED,)):
                if not is_blank(entry):
                    started = told(self._row.key.id, entry, decode_started)
                    self._agents[started.run] = started.name
        return self._agents.get(run) or self._row.agent

    def _day(self, entry: Entry) -> date:
        try:
            return to_datetime(entry.micros).date()
        except (TypeError, OverflowError) as exc:
            raise EntryDamagedError(self._row.key.id, entry.version, f"has no time that can be shown ({exc})") from exc
