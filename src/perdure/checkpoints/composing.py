"""Making the records of a prune: a walk through the log that stops at the end of each range."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from perdure.checkpoints.logs import Log
from perdure.core import blobs
from perdure.core.blobs import Blob
from perdure.core.checkpoint import CheckpointMark
from perdure.core.compose import compose
from perdure.core.conversation import MESSAGE_PATH, Conversation, list_at
from perdure.core.cuts import Cut
from perdure.core.delta import delta
from perdure.core.digest import GENESIS, snapshot_digest
from perdure.core.document import Document
from perdure.core.entries import SPOKEN_KINDS, Entry
from perdure.core.envelope import seal_packed
from perdure.core.errors import EntryDamagedError
from perdure.core.fold import Step, walk, with_bodies
from perdure.core.following import Following, begin, pass_by
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.ops import Op, Ops
from perdure.core.payload import StateChange, WholeState, encode_body
from perdure.core.pruning import Composed, Record, Talk
from perdure.core.steps import Path
from perdure.storage.contract import Storage


class Made(msgspec.Struct, frozen=True):
    """A record, and the large values that are new with it."""

    record: Record
    large: list[Blob]


class _Open(msgspec.Struct):
    """A range that the walk is inside of."""

    cut: Cut
    chain: bytes  # before it
    before: Document
    said: Conversation
    deltas: list[Ops] = []
    turned: bool = False  # a rewind in it goes back to before it
    spoken: bool = False  # messages that are in no list were added in it, or deleted


class Composer:
    """Walks once through a log and makes a record for each cut."""

    def __init__(
        self,
        storage: Storage,
        log: Log,
        *,
        keep_messages: bool,
        path: Path = MESSAGE_PATH,
        limits: DecodeLimits = DEFAULT_LIMITS,
    ) -> None:
        self._storage = storage
        self._log = log
        self._keep = keep_messages
        self._limits = limits
        self._path = path
        self._document = Document()
        self._following = Following(path, log.seams.targets())

    async def make(self, cuts: list[Cut]) -> list[Made]:
        """The records of these ranges, in order."""
        name, log = self._log.row.key.id, self._log
        # A range that begins with a record begins before it: what entries inside that one said comes later.
        after = {cut.low: cut for cut in cuts}
        made: list[Made] = []
        inside = self._begin(after[0], GENESIS) if 0 in after else None
        for entry, found in walk(name, log.entries, log.records):
            step = None if found is None else await self._whole(found)
            self._take(entry, step, inside)
            if inside is not None and entry.version == inside.cut.high and step is not None:
                made.append(self._record(entry, step, inside))
                inside = None
            if entry.version in after:
                inside = self._begin(after[entry.version], entry.chain)
        return made

    async def _whole(self, step: Step) -> Step:
        if not step.blobs:
            return step
        found = await self._storage.blobs(self._log.row.key, step.blobs)
        bodies = {digest: blobs.checked(digest, payload) for digest, payload in found.items()}
        return with_bodies(step, bodies, self._limits)

    def _begin(self, cut: Cut, chain: bytes) -> _Open:
        before = Document() if cut.whole else Document.of(self._document.encoded())
        return _Open(cut, chain, before, Conversation(self._path) if cut.whole else self._following.now.copy(), [])

    def _take(self, entry: Entry, step: Step | None, inside: _Open | None) -> None:
        """Bring the state and the conversation up to an entry."""
        if isinstance(step, WholeState):
            self._document = Document(step.state)
        elif step is not None:
            self._document.fold(step.ops)
            if inside is not None:
                inside.deltas.append(step.ops)
                inside.turned = inside.turned or _turns(step, inside.cut)
        if inside is not None and entry.kind in SPOKEN_KINDS:
            inside.spoken = True
        self._following.follow(self._log.row.key.id, entry, step)

    def _record(self, entry: Entry, step: Step, inside: _Open) -> Made:
        cut = inside.cut
        if cut.whole:
            body, large = self._base(step, inside)
        else:
            body, large = self._composed(step, inside)
        payload = seal_packed(body)
        record = Record(
            low=cut.low,
            version=cut.high,
            chain=entry.chain,
            digest=snapshot_digest(entry.chain, payload),
            payload=payload,
            whole=cut.whole,
            blobs=tuple(blob.digest for blob in large),
        )
        return Made(record, large)

    def _base(self, step: Step, inside: _Open) -> tuple[bytes, list[Blob]]:
        encoded = self._document.encoded()
        state, large = blobs.extract(encoded)
        simple = self._following.now.reader()
        simple.replace(list_at(Raw(encoded), self._path))
        talk = self._talk(inside, simple, None)
        there = self._following.now.reader()
        begin(there, WholeState(Raw(encoded), talk=talk), self._path)
        times = self._following.now.times(there)
        digests = [blob.digest for blob in large]
        return encode_body(WholeState(Raw(state), digests, 0, True, _mark(step), talk, times)), large

    def _composed(self, step: Step, inside: _Open) -> tuple[bytes, list[Blob]]:
        ops = self._checked_ops(inside)
        to = None if isinstance(step, WholeState) else step.to
        before = None if inside.turned or to is not None else inside.said.talk()
        low, now = inside.cut.low, self._following.now
        simple = now.reader(inside.said)
        simple.follow(ops)
        talk = self._talk(inside, simple, before)
        there = now.reader(inside.said)
        pass_by(there, ops, talk, low)
        content = Composed(low, inside.chain, ops, _mark(step), to, [], talk, now.times(there))
        body, large = encode_body(content), list[Blob]()
        if len(body) > blobs.LIMIT:
            lost = [] if talk is None else talk.lost
            left, told, large = blobs.extract_change(ops, [each for _, each in lost])
            if talk is not None:
                kept = [(number, each) for (number, _), each in zip(lost, told, strict=True)]
                talk = msgspec.structs.replace(talk, lost=kept)
            digests = [blob.digest for blob in large]
            body = encode_body(msgspec.structs.replace(content, ops=left, talk=talk, blobs=digests))
        return body, large

    def _checked_ops(self, inside: _Open) -> list[Op]:
        """One change from the beginning of the range to its end. What it leads to is compared before it is believed."""
        goal = self._document.encoded()
        ops = compose(*inside.deltas)
        if _leads(inside.before, ops, goal):
            return ops
        ops, _ = delta(Document.of(inside.before.encoded()), goal)
        if not _leads(inside.before, ops, goal):
            raise EntryDamagedError(self._log.row.key.id, inside.cut.high, "cannot be reached by one change")
        return ops

    def _talk(self, inside: _Open, simple: Conversation, before: Talk | None) -> Talk | None:
        """What to keep of the conversation beside the change; None when the change tells it all.

        Whoever reads the log comes by all messages of the range, those that a rewind took back too.
        """
        now = self._following.now
        if not inside.spoken and simple.messages() == now.messages() and simple.numbers() == now.numbers():
            return None
        talk = now.talk(before, inside.cut.low)
        return talk if self._keep else msgspec.structs.replace(talk, lost=[])


def _turns(step: StateChange | Composed, cut: Cut) -> bool:
    """Whether what is said after a step does not go on from what was said before the range."""
    told_anew = isinstance(step, Composed) and step.talk is not None and step.talk.whole
    return told_anew or (step.to is not None and step.to <= cut.low)


def _leads(before: Document, ops: list[Op], goal: bytes) -> bool:
    """Whether a change leads to a state; the order of keys is no difference."""
    there = Document.of(before.encoded())
    there.fold(ops)
    return there.encoded() == goal or not delta(there, goal)[0]


def _mark(step: Step) -> CheckpointMark | None:
    return step.mark
