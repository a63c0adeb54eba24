"""Random operations on a storage and on the model at once: every answer and every refusal has to be the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from perdure.core.entries import EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.writes import Write
from perdure.storage.contract import BLOB_GRACE
from perdure.storage.transfer import take
from perdure.testing.copying import apart, put
from perdure.testing.looking import Looking
from perdure.testing.player import (
    BLOBS,
    KINDS,
    METADATA,
    PATCHES,
    TTL,
    equal,
    flags,
    keys,
    kinds_of_mark,
    offsets,
    outcome,
    plain,
    small,
)
from perdure.testing.scribe import snapshot_of


class StorageMachine(Looking):
    """Subclass it with a `stage` of your own; `steps` counts what was really played."""

    # Writing.

    @rule(
        key=keys,
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
        expected=st.none() | offsets,
        after_run=st.sampled_from([None, None, None, 0, -1]),
        epoch=st.none() | offsets,
        uid=st.sampled_from([None, None, None, "right", "wrong"]),
        idem_key=st.sampled_from([None, None, "k", "K", "k/1"]),
        request=st.sampled_from([b"1", b"2"]),
        commutes=flags,
        back=st.sampled_from([0, 0, 0, 9]),
        data=st.data(),
    )
    def append(
        self, key: ThreadKey, kinds: list[EntryKind], expected: int | None, after_run: int | None,
        epoch: int | None, uid: str | None, idem_key: str | None, request: bytes, commutes: bool, back: int,
        data: st.DataObject,
    ) -> None:  # fmt: skip
        row = self.row(key)
        self.clock.advance(timedelta(seconds=-back))
        write = self.scribe.write(
            key,
            *kinds,
            expected=None if expected is None else max(row.state_version + min(expected, 0), 0),
            after_run=None if after_run is None else max(row.run + after_run, 0),
            epoch=None if epoch is None else row.epoch + epoch,
            uid=row.uid if uid == "right" else uid,
            renew_until=self.clock.now() + TTL,
            idem_key=idem_key,
            request=request if idem_key else None,
            commutes=commutes,
        )
        self.add(msgspec.structs.replace(write, **self._extras(write, data)))

    def _extras(self, write: Write, data: st.DataObject) -> dict[str, Any]:
        """A checkpoint, a patch and large values for some writes."""
        extras: dict[str, Any] = {"patch": data.draw(st.sampled_from(PATCHES))}
        if data.draw(flags):
            metadata = data.draw(st.sampled_from(METADATA))
            version = data.draw(st.sampled_from([None, None, max(self.row(write.key).head, 1)]))
            extras["checkpoint"] = self.scribe.mark(metadata=metadata, kind=data.draw(kinds_of_mark), version=version)
        if data.draw(small) > 9:
            extras["blobs"] = tuple(data.draw(st.lists(st.sampled_from(BLOBS), max_size=2, unique=True)))
        return extras

    def add(self, write: Write) -> None:
        answer, expected = self.both(self.storage.append(write), lambda: self.model.append(write))
        if answer is None:
            return
        equal(outcome(answer), expected)
        equal(plain(answer.row), self.row(write.key))
        if not answer.again:
            self.writes.append((write, answer.version - len(write.entries), answer.row.uid))
        if answer.checkpoint and not answer.again:
            self.marks.append(answer.checkpoint.mark.id)

    @rule(which=small, says_since=flags)
    def retry(self, which: int, says_since: bool) -> None:
        """Send a write again that landed: its answer was lost."""
        if self.writes:
            write, before, uid = self.writes[-1 - which % len(self.writes)]
            row = self.row(write.key)
            # Without a key, a version that is stale by now or `since`, nobody could know it: it would be another write.
            known = write.idem_key is not None or write.expected not in (None, row.state_version)
            if row.uid == uid and (known or says_since):
                self.add(msgspec.structs.replace(write, since=before if says_since else None))

    @rule(source=keys, back=st.integers(-1, 6), to=keys)
    def fork(self, source: ThreadKey, back: int, to: ThreadKey) -> None:
        row = self.scribe.target(ThreadKey(source.namespace, source.user, to.id), tags=("x",))
        at = self.row(source).head - back
        answer, expected = self.both(self.storage.fork(source, at, row), lambda: self.model.fork(source, at, row))
        equal(answer and plain(answer), expected)
        if answer is not None:
            self.forks.append((source, at, row))

    @rule(which=small)
    def fork_again(self, which: int) -> None:
        """Ask for a fork again that was made: its answer was lost."""
        if self.forks:
            source, at, row = self.forks[-1 - which % len(self.forks)]
            if row.key in self.model.threads:  # once it is deleted, asking again makes another
                answer, told = self.both(self.storage.fork(source, at, row), lambda: self.model.fork(source, at, row))
                equal(answer and plain(answer), told)

    @rule(source=keys, to=keys)
    def copy(self, source: ThreadKey, to: ThreadKey) -> None:
        """Copy a thread to another key of the same user, or bring an earlier copy up to it."""
        if source in self.model.threads:
            key = ThreadKey(source.namespace, source.user, to.id)
            taken = self.run(take(self.storage, source, spare_uid=self.scribe.uid()))
            copy = taken if key == source else apart(taken, key)
            answer, told = self.both(self.storage.put_thread(copy), lambda: put(self.model, source, copy))
            equal(answer and plain(answer), told)

    @rule(key=keys, sure=small)
    def delete(self, key: ThreadKey, sure: int) -> None:
        if sure > 8:
            self.same(self.storage.delete(key), lambda: self.model.delete(key))

    @rule(key=keys, back=small, base=flags, stranger=st.sampled_from([False, False, True]))
    def put_snapshot(self, key: ThreadKey, back: int, base: bool, stranger: bool) -> None:
        row = self.row(key)
        version = max(row.head - back, 0)
        uid = "stranger" if stranger else row.uid
        if (uid, version) not in self.model.snapshots:  # what becomes of a base that is put twice is not promised
            snapshot = snapshot_of(version, base=base)
            self.same(
                self.storage.put_snapshot(key, uid, snapshot), lambda: self.model.put_snapshot(key, uid, snapshot)
            )

    @rule(key=keys, back=small)
    def drop_snapshot(self, key: ThreadKey, back: int) -> None:
        version = max(self.row(key).head - back, 0)
        self.same(self.storage.drop_snapshot(key, version), lambda: self.model.drop_snapshot(key, version))

    # Leases and time.

    @rule(seconds=st.integers(1, 8))
    def wait(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule(key=keys, owner=st.sampled_from(["me", "you"]), take_from=st.sampled_from([None, None, "me", "you"]))
    def claim(self, key: ThreadKey, owner: str, take_from: str | None) -> None:
        now, until = self.clock.now(), self.clock.now() + TTL
        self.same(
            self.storage.claim(key, owner, until=until, now=now, take_from=take_from),
            lambda: self.model.claim(key, owner, until, now, take_from),
        )

    @rule(key=keys, offset=offsets)
    def renew(self, key: ThreadKey, offset: int) -> None:
        epoch, now, until = self.row(key).epoch + min(offset, 0), self.clock.now(), self.clock.now() + TTL
        self.same(self.storage.renew(key, epoch, until=until, now=now), lambda: self.model.renew(key, epoch, until))

    @rule(key=keys, offset=offsets, wake=flags)
    def release(self, key: ThreadKey, offset: int, wake: bool) -> None:
        epoch, wake_at = self.row(key).epoch + min(offset, 0), self.clock.now() + TTL if wake else None
        self.same(self.storage.release(key, epoch, wake_at=wake_at), lambda: self.model.release(key, epoch, wake_at))

    # Housekeeping.

    @rule(hours=st.integers(0, 3))
    def sweep(self, hours: int) -> None:
        now = self.clock.now() + hours * BLOB_GRACE + 1
        swept, _ = self.both(self.storage.sweep_blobs(now), lambda: 0)
        gone = [blob for blob in self.model.blobs if not self._has(blob)]
        equal(swept, len(gone))
        for blob in list(self.model.blobs):
            assert blob not in gone or not self.model.must_stay(blob, now)
            assert blob in gone or not self.model.must_go(blob, now)
        for blob in gone:
            del self.model.blobs[blob]

    def _has(self, blob: tuple[str, str, bytes]) -> bool:
        namespace, user, digest = blob
        found = self.run(self.storage.blobs(ThreadKey(namespace, user, "t"), [digest]))
        return digest in found

    @rule(name=st.sampled_from(["a", "A", "b"]), value=st.binary(max_size=4))
    def keep(self, name: str, value: bytes) -> None:
        self.same(self.storage.keep(name, value), lambda: self.model.keep(name, value))

    @rule()
    def reopen(self) -> None:
        if not self._stage.forgets:
            self.run(self.storage.close())
            self.storage = self.scribe.storage = self._opened()
            type(self).steps += 1
