"""Redis in front of PostgreSQL: reading a thread that the process does not remember, with the hot layer and without.

Beside each: a raw SELECT and a raw Redis GET of as many bytes. What the hot layer cannot be quicker than is both the
GET and the question to PostgreSQL whether the thread is still at that version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.postgres.lab import Lab, RawInserts
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import USER, open_store
from benchmarks.timing import Step, interleave, timed
from benchmarks.workload import State, final_state, opening_context, turns
from perdure.core.ports import Silence
from perdure.sync import Perdure

_NEWEST = 20
_NAME = "hot read ÷ cold read"


class _Hits(Silence):
    """Counts what the hot layer says it found."""

    def __init__(self) -> None:
        self.counts = {"perdure.hot.hits": 0, "perdure.hot.misses": 0}

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        if name in self.counts:
            self.counts[name] += value

    def take(self) -> str:
        """What was counted since the last time, for people."""
        told = f"{self.counts['perdure.hot.hits']} hits, {self.counts['perdure.hot.misses']} misses"
        self.counts = dict.fromkeys(self.counts, 0)
        return told


@dataclass(slots=True)
class _Stores:
    """The same threads read in two ways, and what the bytes cost by themselves."""

    cold: Perdure
    hot: Perdure
    hits: _Hits
    raw: RawInserts
    client: Any  # of Redis

    def close(self) -> None:
        for each in (self.cold, self.hot, self.raw, self.client):
            each.close()


def run(bench: Bench) -> None:
    """Threads of several lengths; the whole state, and the newest messages."""
    reason = _measured(bench)
    if reason:
        bench.found(Figure(name=_NAME, value=None, note=reason))


def _measured(bench: Bench) -> str:
    """Measure, or say why that cannot be."""
    lab: Lab = bench.server
    redis, home = lab.redis(), lab.home("hot")
    if redis is None:
        return "no Redis on this machine"
    _fill(home.url, bench.scale.lengths)
    hits = _Hits()
    try:
        hot = open_store(home.url, cache_bytes=0, hot=redis, telemetry=hits)
    except Exception as exc:
        return f"the hot layer cannot be opened: {type(exc).__name__}"
    cold = open_store(home.url, cache_bytes=0)
    stores = _Stores(cold, hot, hits, RawInserts(lab.home("raw")), _client(redis))
    _load(hot, bench.scale.lengths[0])
    is_filled = stores.client.dbsize() > 0
    for count in bench.scale.lengths if is_filled else ():
        _length(bench, count, stores)
    stores.close()
    return "" if is_filled else "nothing reached Redis"


def _length(bench: Bench, count: int, stores: _Stores) -> None:
    whole = final_state("words", count)
    last = min(_NEWEST, count)
    for name, read, content in (
        (_NAME, _load, whole),
        (f"{_NAME} of the newest {last} messages", _newest, whole["messages"][-last:]),
    ):
        steps = _steps(stores, read, count, _Anchors(stores, f"{name} {count}", msgspec.msgpack.encode(content)))
        for step in steps.values():  # what is not in Redis yet is now
            step(0)
        stores.hits.take()
        samples = interleave(f"hot, {count} messages", bench.scale.repeats, steps)
        name, note = f"{name}, a thread of {count}", stores.hits.take()
        bench.found(compared(name, "hot", "cold", samples, beside=["SELECT", "GET"], note=note))


def _steps(stores: _Stores, read: Callable[[Perdure, int], float], count: int, anchors: _Anchors) -> dict[str, Step]:
    return {
        "hot": lambda _: read(stores.hot, count),
        "cold": lambda _: read(stores.cold, count),
        "SELECT": anchors.select,
        "GET": anchors.get,
    }


class _Anchors:
    """The same content in one blob, in PostgreSQL and in Redis."""

    def __init__(self, stores: _Stores, name: str, body: bytes) -> None:
        self._raw, self._client = stores.raw, stores.client
        self._name, self._at = name, stores.raw.keep(body)
        self._client.set(name, body)

    def select(self, _: int) -> float:
        return self._raw.select(self._at)

    def get(self, _: int) -> float:
        return timed(lambda: self._client.get(self._name))


def _fill(url: str, lengths: tuple[int, ...]) -> None:
    store = open_store(url)
    for count in lengths:
        state, thread = State(opening_context("words")), store.thread(str(count), user=USER)
        for turn in turns("words", count):
            thread.save(state.take(turn))
    store.thread("other", user=USER).save({"small": True})
    store.close()


def _load(store: Perdure, count: int) -> float:
    """A state the process does not remember: with no room for more, another one takes its place."""
    store.thread("other", user=USER).load()
    return timed(lambda: store.thread(str(count), user=USER).load())


def _newest(store: Perdure, count: int) -> float:
    return timed(lambda: store.thread(str(count), user=USER).messages(limit=_NEWEST))


def _client(url: str) -> Any:
    import redis

    return redis.Redis.from_url(url)
