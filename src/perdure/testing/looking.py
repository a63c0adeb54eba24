"""The half of the random operations that only looks."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.entries import STATE_KINDS, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadQuery
from perdure.testing.player import (
    KINDS,
    METADATA,
    Player,
    equal,
    flags,
    keys,
    kinds_of_mark,
    limits,
    plain,
    seen,
    small,
)
from perdure.testing.scribe import SECOND


class Looking(Player):
    """Reading, listing, finding."""

    @rule(key=keys, at=st.none() | small, after=st.none() | small)
    def restore(self, key: ThreadKey, at: int | None, after: int | None) -> None:
        found, _ = self.both(self.storage.restore(key, at=at, after=after), lambda: None)
        thread = self.model.threads.get(key)
        if thread is None or found is None:
            assert (thread, found) == (None, None)
            return
        top = thread.row.head if at is None else at
        usable = [each for _, each in self.model.visible_snapshots(key) if after is None and each.version <= top]
        newest = max(usable, key=lambda each: each.version, default=None)
        equal(found.snapshot and found.snapshot.version, newest and newest.version)
        low = after if after is not None else newest.version if newest else 0
        wanted = [line for line in thread.lines if low < line.version <= top]
        payloads = [line.payload if line.kind in STATE_KINDS else None for line in wanted]
        equal([entry.version for entry in found.entries], [line.version for line in wanted])
        equal([entry.payload for entry in found.entries], payloads)

    @rule(key=keys, after=small, limit=st.none() | limits, kinds=st.none() | st.lists(st.sampled_from(KINDS)))
    def entries(self, key: ThreadKey, after: int, limit: int | None, kinds: list[EntryKind] | None) -> None:
        found, _ = self.both(self.storage.entries(key, after=after, limit=limit, kinds=kinds), lambda: [])
        lines = self.model.threads[key].lines if key in self.model.threads else []
        wanted = [line for line in lines if line.version > after and (kinds is None or line.kind in kinds)]
        equal([entry.payload for entry in found or []], [line.payload for line in wanted[:limit]])

    @rule(key=keys, idem_key=st.sampled_from(["k", "K", "x"]))
    def keyed(self, key: ThreadKey, idem_key: str) -> None:
        found, told = self.both(self.storage.keyed(key, idem_key), lambda: self.model.keyed(key, idem_key))
        equal(found and (found.version, found.payload), told and (told.version, told.payload))

    @rule(key=keys, prefix=st.sampled_from(["k", "K", "k/", "k/1", "x"]))
    def under(self, key: ThreadKey, prefix: str) -> None:
        found, told = self.both(self.storage.under(key, prefix), lambda: self.model.under(key, prefix))
        wanted = [(line.version, line.payload) for line in told]
        equal([(entry.version, entry.payload) for entry in found or []], wanted)

    @rule(which=small)
    def line(self, which: int) -> None:
        """Of a thread that may be deleted by now."""
        uids = ["nobody", *(uid for _, _, uid in self.writes), *(row.uid for _, _, row in self.forks)]
        uid = uids[-1 - which % len(uids)]
        found, told = self.both(self.storage.line(uid), lambda: self.model.line(uid))
        equal(found and plain(found), told)

    @rule(key=keys, at=st.none() | small, back=st.none() | small, limit=limits)
    def headers(self, key: ThreadKey, at: int | None, back: int | None, limit: int) -> None:
        until = None if back is None else self.clock.now() - back * SECOND
        found, _ = self.both(self.storage.headers(key, at=at, until=until, limit=limit), lambda: [])
        lines = self.model.threads[key].lines if key in self.model.threads else []
        early = [
            line for line in lines if (at is None or line.version <= at) and (until is None or line.micros <= until)
        ]
        newest = early[: -limit - 1 : -1]
        equal([(entry.version, entry.payload) for entry in found or []], [(line.version, None) for line in newest])

    @rule(key=keys, across=flags, data=st.data(), limit=limits)
    def checkpoints(self, key: ThreadKey, across: bool, data: st.DataObject, limit: int) -> None:
        query = self._query(data, limit)
        if across:
            user = data.draw(st.sampled_from([None, key.user]))
            work = self.storage.user_checkpoints(key.namespace, user, query)
            found, wanted = self.both(work, lambda: self.model.user_checkpoints(key.namespace, user, query))
        else:
            found, wanted = self.both(self.storage.checkpoints(key, query), lambda: self.model.checkpoints(key, query))
        equal([seen(row) for row in found or []], wanted)

    def _query(self, data: st.DataObject, limit: int) -> CheckpointQuery:
        back = data.draw(st.none() | small)
        return CheckpointQuery(
            id=data.draw(st.sampled_from([None, None, None, *self.marks])),
            kind=data.draw(st.none() | kinds_of_mark),
            metadata=data.draw(st.none() | st.sampled_from(METADATA)),
            since=None if back is None else self.clock.now() - back * SECOND,
            before=data.draw(st.none() | st.sampled_from(self.marks)) if self.marks else None,
            limit=limit,
        )

    @rule(which=small, user=st.sampled_from([None, "alice", "bob"]))
    def checkpoint(self, which: int, user: str | None) -> None:
        if self.marks:
            name = self.marks[-1 - which % len(self.marks)]
            found, _ = self.both(self.storage.checkpoint("", user, name), lambda: None)
            everything = self.model.user_checkpoints("", user, CheckpointQuery(limit=1 << 30))
            equal(found and [seen(found)], [row for row in everything if row.mark.id == name] or None)

    @rule(key=keys, data=st.data(), limit=limits)
    def threads(self, key: ThreadKey, data: st.DataObject, limit: int) -> None:
        last = self.row(data.draw(keys))
        query = ThreadQuery(
            namespace=key.namespace,
            user=data.draw(st.none() | st.just(key.user)),
            agent=data.draw(st.sampled_from([None, "bot"])),
            status=data.draw(st.sampled_from([None, None, "running"])),
            tag=data.draw(st.sampled_from([None, None, "x"])),
            before=(last.updated, last.uid) if data.draw(flags) else None,
            limit=limit,
        )
        found, wanted = self.both(self.storage.threads(query), lambda: self.model.list_threads(query))
        equal([plain(row) for row in found or []], wanted)
