"""Redis in front of PostgreSQL: reading a thread that the process does not remember.

A cold read asks PostgreSQL alone, a checked one (`load()`) PostgreSQL for the head and Redis for the rest, a cached one
(`load(fresh="cache")`) Redis alone. PostgreSQL is on loopback, and at the end of a link of 5 ms there and back. Beside
each: a raw SELECT and a raw Redis GET of as many bytes, both on loopback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.postgres.lab import Lab, RawInserts
from benchmarks.postgres.link import Link
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import USER, open_store
from benchmarks.timing import Step, interleave, timed
from benchmarks.workload import State, final_state, opening_context, turns
from perdure.core.ports import Silence
from perdure.sync import Perdure

_NEWEST = 20
_NAME = "cached read ÷ cold read"
_FAR = 0.005  # seconds there and back
_BARS = {"on loopback": 0.7, "5 ms away": 0.35}
_OLDEST = 3600.0  # seconds: what is read is as fresh as at the beginning, and ages during the run


Read = Callable[..., float]
_COUNTED = ("perdure.hot.hits", "perdure.hot.misses", "perdure.hot.cached_hits", "perdure.hot.cached_misses")


class _Hits(Silence):
    """Counts what the hot layer says it found."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(_COUNTED, 0)

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        if name in self.counts:
            self.counts[name] += value

    def take(self) -> str:
        """What was counted since the last time, for people."""
        told = ", ".join(f"{value} {name.rpartition('.')[2]}" for name, value in self.counts.items() if value)
        self.counts = dict.fromkeys(self.counts, 0)
        return told


@dataclass(slots=True)
class _Stores:
    """The same threads read in two ways, and what the bytes cost by themselves."""

    cold: Perdure
    hot: Perdure
    warm: Perdure  # with Redis too, and room to remember all states
    hits: _Hits
    raw: RawInserts
    client: Any  # of Redis

    def close(self) -> None:
        for each in (self.cold, self.hot, self.warm, self.client):
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
    raw = RawInserts(lab.home("raw"))
    with Link(home.url, _FAR) as link:
        for place, url in zip(_BARS, (home.url, link.url), strict=True):
            hits = _Hits()
            try:
                hot = open_store(url, cache_bytes=0, hot=redis, telemetry=hits)
            except Exception as exc:
                return f"the hot layer cannot be opened: {type(exc).__name__}"
            cold, warm = open_store(url, cache_bytes=0), open_store(url, hot=redis)
            stores = _Stores(cold, hot, warm, hits, raw, _client(redis))
            _load(hot, bench.scale.lengths[0])
            is_filled = stores.client.dbsize() > 0
            for count in bench.scale.lengths if is_filled else ():
                _length(bench, count, stores, place)
            stores.close()
            if not is_filled:
                return "nothing reached Redis"
    raw.close()
    return ""


def _length(bench: Bench, count: int, stores: _Stores, place: str) -> None:
    whole = final_state("words", count)
    last = min(_NEWEST, count)
    for what, read, content in (
        ("", _load, whole),
        (f" of the newest {last} messages", _newest, whole["messages"][-last:]),
    ):
        anchors = _Anchors(stores, f"{what} {count} {place}", msgspec.msgpack.encode(content))
        steps = _steps(stores, read, count, anchors)
        for step in steps.values():  # what is not in Redis yet is now
            step(0)
        stores.hits.take()
        samples = interleave(f"hot, {count} messages {place}", bench.scale.repeats, steps)
        of, note = f"{what}, a thread of {count}, {place}", stores.hits.take()
        beside = ["SELECT", "GET"]
        bench.found(compared(f"{_NAME}{of}", "cached", "cold", samples, bar=_BARS[place], beside=beside, note=note))
        if not what:
            bench.found(compared(f"cached read of a remembered state ÷ cold read{of}", "remembered", "cold", samples))
        bench.found(compared(f"checked read ÷ cold read{of}", "checked", "cold", samples))


def _steps(stores: _Stores, read: Read, count: int, anchors: _Anchors) -> dict[str, Step]:
    return {
        "cached": lambda _: read(stores.hot, count, fresh="cache", max_age=_OLDEST),
        "remembered": lambda _: read(stores.warm, count, fresh="cache", max_age=_OLDEST),
        "checked": lambda _: read(stores.hot, count),
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


def _load(store: Perdure, count: int, **how: Any) -> float:
    """A state the process does not remember: with no room for more, another one takes its place."""
    store.thread("other", user=USER).load()
    return timed(lambda: store.thread(str(count), user=USER).load(**how))


def _newest(store: Perdure, count: int, **how: Any) -> float:
    return timed(lambda: store.thread(str(count), user=USER).messages(limit=_NEWEST, **how))


def _client(url: str) -> Any:
    import redis

    return redis.Redis.from_url(url)
