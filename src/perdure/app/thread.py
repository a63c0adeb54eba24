"""A thread as its users hold it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.app.handle import ABSENT, Fresh, LastRead, built, checkpoint_of
from perdure.app.naming import ThreadInfo, info_of
from perdure.app.rerunning import Running
from perdure.core import steps
from perdure.core.changes import Change
from perdure.core.checkpoint import (
    EVERY,
    Checkpoint,
    CheckpointMark,
    CheckpointQuery,
    check_limit,
    check_metadata,
    is_due,
)
from perdure.core.errors import DamagedError, InvalidInputError, NotFoundError
from perdure.core.identity import ThreadKey, check_label
from perdure.core.steps import Step
from perdure.core.times import moment_or_none, to_datetime

if TYPE_CHECKING:
    from perdure.checkpoints.newest import Latest
    from perdure.checkpoints.pruning import Pruned
    from perdure.checkpoints.repairing import Repaired
    from perdure.checkpoints.requests import Saved
    from perdure.checkpoints.restoring import Head
    from perdure.core.comparison import Comparison
    from perdure.core.entries import Entry, NewEntry
    from perdure.core.retention import Plan
    from perdure.core.retention_policy import Retention
    from perdure.core.subclasses import Subclasses
    from perdure.core.verification import Report
    from perdure.core.weights import ThreadSizes

PathLike = str | tuple[Step, ...]


class Thread(Running):
    """One conversation or task: an append-only log and the state it adds up to.

    A handle remembers the last state it has seen. `save` and `update` are refused with `VersionConflictError` when
    somebody changed the state since then; `append` is right after any change and is placed after it.
    """

    async def load(
        self, ref: object = None, default: Any = ABSENT, *, fresh: Fresh = "storage", max_age: float | None = None
    ) -> Any:
        """Return the newest state, or that at `ref`; raise `NotFoundError` when absent, unless a default is given.

        With `fresh="cache"` Redis alone is asked, where the store has a hot layer: the state is one that was the newest
        at most `max_age` seconds ago (60); `last_read` tells how old it is. The storage is asked where Redis does not
        have it. Saving a state that is not the newest any more is refused as ever.
        """
        oldest = None
        if fresh != "storage" or max_age is not None:
            from perdure.app.freshness import is_cached

            oldest = is_cached(fresh, max_age)
        if oldest is not None and ref is not None:
            raise InvalidInputError('fresh="cache" knows the newest state only; leave ref or fresh out')
        key = await self._found()
        self._parts.state_was_read()
        if ref is None:
            head = await self._head(key, oldest)
            self._seen, self._uid = head.version, head.uid  # also that there is nothing: who saves then expects that
            if head.version == 0 or head.document.root is None:
                return self._default(default, f"a state of thread {self.id!r}")
            return built(head.document, self.id)
        try:
            return built(await self._at(key, ref), self.id)
        except NotFoundError:
            if default is ABSENT:
                raise
            return default

    async def _head(self, key: ThreadKey, oldest: float | None) -> Head:
        if oldest is not None:
            from perdure.app.freshness import cached_head

            cached = await cached_head(self._parts, key, oldest)
            if cached is not None:
                head, self._last_read = cached
                return head
        try:
            head = await self._parts.engine.head(key)
        except DamagedError as exc:
            raise await self._parts.newest.advised(key, exc) from exc
        self._last_read = LastRead(source="storage", age=0.0, version=head.version)
        return head

    async def save(
        self,
        state: object,
        *,
        kind: str = "manual",
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
        expected: int | None = None,
        key: str | None = None,
        after: object = None,
        messages: Sequence[object] = (),
        also: Sequence[NewEntry] = (),
        subclasses: Subclasses | None = None,
    ) -> Checkpoint:
        """Make `state` the state of the thread, with a checkpoint. What is stored is the change.

        `None` is a state too, and `load` returns it. `subclasses` ("refuse" or "plain") says what becomes of objects of
        subclasses that are not registered; without it the store's option counts.

        With `after`, a ref, the state builds on that point: what came since is left behind, as by a rewind.
        `messages` are added to the conversation in the same write, as by `add_messages`; faces may add entries.
        """
        thread = self._key if self._is_found else await self._found()
        mark, kept = self._mark(kind, status, note, metadata), self._subclasses(subclasses)
        if after is not None:
            _check_no_messages(messages)
            return await self._save_after(thread, state, after, mark, expected, key, kept)
        wanted = self._seen if expected is None else self._expected(expected)
        request = self._request(mark, key, makes=expected == 0)
        if messages or also:
            request = (await self._with_messages(thread, request, messages)).with_entries(*also)
        saved = await self._parts.engine.save(thread, state, wanted, request, subclasses=kept)
        return await self._saved(thread, saved, wanted, makes=expected == 0)

    def _subclasses(self, given: object) -> Subclasses:
        if given is None:
            return self._parts.engine.subclasses
        from perdure.core.subclasses import check_subclasses

        return check_subclasses(given)

    async def routine(
        self,
        state: object,
        *,
        every: timedelta = EVERY,
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
        subclasses: Subclasses | None = None,
    ) -> Checkpoint | None:
        """Save a routine checkpoint if the newest one is `every` old (30 minutes); None when it is not time yet."""
        last = await self.history(limit=1, kind="routine", agent=self._agent)
        if not is_due(last[0].timestamp if last else None, to_datetime(self._parts.clock.now()), every):
            return None
        return await self.save(
            state, kind="routine", status=status, note=note, metadata=metadata, subclasses=subclasses
        )

    async def _saved(self, thread: ThreadKey, saved: Saved, wanted: int | None, *, makes: bool = False) -> Checkpoint:
        self._saw(saved, wanted, makes=makes)
        if self._parts.retention is not None:  # most have none, and a coroutine for nothing is felt at every save
            await self._parts.look_after(thread)
        return checkpoint_of(saved, self.user)

    async def _save_after(
        self,
        thread: ThreadKey,
        state: object,
        ref: object,
        mark: CheckpointMark,
        expected: int | None,
        key: str | None,
        subclasses: Subclasses,
    ) -> Checkpoint:
        row = await self._row(thread)
        version = await self._parts.points.version(row, ref)
        parent = ref.id if isinstance(ref, Checkpoint) else await self._parts.travel.parent_of(row, version)
        request = self._request(msgspec.structs.replace(mark, parent=parent), key)
        request = msgspec.structs.replace(request, uid=request.uid or row.uid)  # the ref is of this one
        wanted = row.state_version if expected is None else self._expected(expected)
        saved = await self._parts.engine.save(thread, state, wanted, request, after=version, subclasses=subclasses)
        return await self._saved(thread, saved, wanted)

    async def append(
        self,
        path: PathLike,
        *items: object,
        key: str | None = None,
        checkpoint: bool = False,
        subclasses: Subclasses | None = None,
    ) -> int:
        """Add items to the list at `path`, made when missing, and return the new version. Right after any change."""
        change = Change({}, {steps.parse(path): items}, (), self._subclasses(subclasses))
        return await self._change(change, None, key, checkpoint)

    async def update(
        self,
        *,
        set: Mapping[Any, object] | None = None,
        append: Mapping[Any, Sequence[object]] | None = None,
        delete: Iterable[PathLike] = (),
        expected: int | None = None,
        key: str | None = None,
        checkpoint: bool = False,
        subclasses: Subclasses | None = None,
    ) -> int:
        """Set, append and delete in one atomic write, and return the new version."""
        change = Change(set or {}, append or {}, delete, self._subclasses(subclasses))
        return await self._change(change, expected, key, checkpoint)

    async def _change(self, change: Change, expected: int | None, key: str | None, checkpoint: bool) -> int:
        thread = self._key if self._is_found else await self._found()
        mark = self._mark("manual", None, None, None) if checkpoint else None
        wanted, makes = self._seen if expected is None else self._expected(expected), expected == 0
        saved = await self._parts.engine.change(thread, change, wanted, self._request(mark, key, makes=makes))
        self._saw(saved, wanted, makes=makes)
        if checkpoint:
            await self._parts.look_after(thread)
        return saved.appended.version

    async def history(
        self,
        limit: int = 50,
        before: Checkpoint | str | None = None,
        kind: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, object] | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        everything: bool = False,
    ) -> list[Checkpoint]:
        """List checkpoints, newest first, never their states. `before` is the last one of the page before.

        Those that a rewind left behind are not listed, unless `everything` is asked for.
        """
        check_metadata(metadata)
        query = CheckpointQuery(
            kind=check_label(kind, "kind"),
            status=check_label(status, "status"),
            agent=check_label(agent, "agent"),
            metadata=metadata,
            since=moment_or_none(since, "since"),
            until=moment_or_none(until, "until"),
            before=check_label(before.id if isinstance(before, Checkpoint) else before, "before"),
            limit=check_limit(limit),
            present=not everything,
        )
        rows = await self._parts.storage.checkpoints(await self._found(), query)
        user = self.user
        return [row.public(user) for row in rows]

    async def entries(self, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries of the log after a version, oldest first, every digest checked."""
        from perdure.checkpoints.reading import read_log

        if type(after) is not int or after < 0:
            raise InvalidInputError(f"after must be a version (an int from 0 on), not {after!r}")
        wanted = None if limit is None else check_limit(limit)
        return await read_log(self._parts.storage, await self._found(), after, wanted)

    async def compare(self, a: object, b: object) -> Comparison:
        """Compare the states at two refs (or checkpoints) of this thread; None is the newest version."""
        from perdure.app.comparing import Place, compare_two

        key = await self._found()
        return await compare_two(self._parts, Place(key, a), Place(key, b))

    async def delete(self) -> bool:
        """Delete the thread with everything that belongs to it; its forks keep their history."""
        key = await self._found()
        self._parts.engine.forget(key)
        self._seen = self._uid = None
        return await self._parts.storage.delete(key)

    async def sizes(self, ref: object = None, depth: int = 2) -> ThreadSizes:
        """Say where the bytes of this thread are: its log by kind, and its state down to the key.

        The state is the newest one, or that at `ref`; `depth` is how far to look into it. The whole log is read.
        """
        from perdure.app.weighing import weigh_thread
        from perdure.core.weights import check_depth

        key = await self._found()
        row = await self._row(key)
        version = row.head if ref is None else await self._parts.points.version(row, ref)
        return await weigh_thread(
            self._parts.storage, row, version, await self._parts.engine.at(key, version, row.uid), check_depth(depth)
        )

    async def info(self) -> ThreadInfo:
        """Return status, versions and sizes."""
        row = await self._row(await self._found())
        return info_of(row, self._parts.users.shown(row.key.user), await self._parts.storage.sizes(row.key))

    async def plan(self, keep: int | Retention) -> Plan:
        """What `prune` would drop, why, and about how many bytes that frees. Nothing is changed."""
        from perdure.core import retention
        from perdure.core.retention_policy import policy_of

        row = await self._row(await self._found())
        points = await self._parts.pruner.points(row, weigh=True)
        return retention.plan(points, policy_of(keep), self._parts.clock.now())

    async def prune(self, keep: int | Retention) -> Pruned:
        """Drop the points that a policy does not keep (an int: all but the newest that many), and what only they need.

        Every point that stays loads as before. Messages, tool results, pauses and decisions stay, and so does who did
        what and when. What is tagged, forked from, paused or newest is never dropped.
        """
        from perdure.core import retention
        from perdure.core.retention_policy import policy_of

        policy = policy_of(keep)
        row = await self._row(await self._found())
        points = await self._parts.pruner.points(row, weigh=policy.weighs)
        plan = retention.plan(points, policy, self._parts.clock.now())
        return await self._parts.pruner.apply(row, plan, policy, self._actor)

    async def verify(self, *, restore: bool = False) -> Report:
        """Check the whole log, every whole state against a replay, and every index against the log.

        With `restore`, every checkpoint is restored and compared too. Nothing is changed, nothing is raised for what
        is damaged: the report names each damage with its place.
        """
        await self._parts.flush()
        return (await self._parts.verifier.look(await self._known(), restore=restore)).report

    async def repair(self) -> Repaired:
        """Make everything again that is derived from the log: directory line, checkpoint index, rewinds, snapshots.

        The log is never changed: what is damaged in it is named in the answer and stays as it is.
        """
        return await self._parts.repairer.thread(await self._known())

    async def _known(self) -> ThreadKey:
        """The key of a thread that there is, also of one that cannot be read."""
        key = await self._found()
        with suppress(DamagedError):
            await self._row(key)
        return key

    async def latest(self, kind: str | None = None, status: str | None = None) -> Latest:
        """The newest checkpoint (of a kind, or with a status) that restores; damaged ones are skipped, and named.

        Raises `NotFoundError` when none is intact.
        """
        from perdure.checkpoints.newest import Latest

        row = await self._row(await self._found())
        kind, status = check_label(kind, "kind"), check_label(status, "status")
        mark, skipped = await self._parts.newest.find(row, kind=kind, status=status)
        return Latest(checkpoint=mark.public(self.user), skipped=skipped)


def _check_no_messages(messages: Sequence[object]) -> None:
    if messages:
        raise InvalidInputError("a save after another point takes no messages: add them once it is made")
