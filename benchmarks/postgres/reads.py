"""Restoring the newest state of W and listing its checkpoints, beside LangGraph and raw SELECTs."""

from __future__ import annotations

import msgspec
import psycopg

from benchmarks.peers.child import Peer
from benchmarks.postgres.lab import RawInserts
from benchmarks.report import compared
from benchmarks.scale import Bench
from benchmarks.stores import handle, open_store
from benchmarks.timing import Step, interleave, timed
from benchmarks.workload import final_state

_LISTED = 50
_ROWS = f"""SELECT id, kind, status, note, agent, metadata, version, parent, at, thread
FROM perdure.checkpoint ORDER BY "row" DESC LIMIT {_LISTED}"""
_GET, _LIST = "LangGraph get_tuple", "LangGraph list"


def run(bench: Bench, url: str, raw: RawInserts, peer: Peer | None) -> None:
    """Both, after W was played."""
    _restore(bench, url, raw, peer)
    _list(bench, url, peer)


def _restore(bench: Bench, url: str, raw: RawInserts, peer: Peer | None) -> None:
    count = bench.scale.turns
    body = msgspec.msgpack.encode(final_state("words", count))
    at = raw.keep(body)
    sides: dict[str, Step] = {
        "fresh": lambda _: _fresh(url),
        "SELECT": lambda _: raw.select(at),
        "decoding": lambda _: timed(lambda: msgspec.msgpack.decode(body)),
    }
    if peer is not None:
        sides[_GET] = lambda _: peer.ask("get")
    samples = interleave("restore", bench.scale.repeats, sides)
    what = f"restore the newest of {count} turns, fresh"
    samples["both"] = [one + other for one, other in zip(samples["SELECT"], samples["decoding"], strict=True)]
    bench.found(compared(f"{what} ÷ raw SELECT of the same bytes and decoding them", "fresh", "both", samples))
    if peer is not None:
        bench.found(compared(f"{what} ÷ LangGraph's get_tuple", "fresh", _GET, samples, beside=["SELECT"]))


def _fresh(url: str) -> float:
    """In the clock: the handle, every read of the database, digests, folding, decoding. Not in it: connecting."""
    store = open_store(url)
    seconds = timed(lambda: handle(store).load())
    store.close()
    return seconds


def _list(bench: Bench, url: str, peer: Peer | None) -> None:
    store, raw = open_store(url), psycopg.connect(url, autocommit=True)
    thread = handle(store)
    sides: dict[str, Step] = {
        "history": lambda _: timed(lambda: thread.history(_LISTED)),
        "SELECT": lambda _: timed(lambda: raw.execute(_ROWS, binary=True).fetchall()),
    }
    if peer is not None:
        sides[_LIST] = lambda _: peer.ask(f"list {_LISTED}")
    samples = interleave("list", bench.scale.repeats, sides)
    raw.close()
    store.close()
    what = f"list the newest {_LISTED} checkpoints"
    bench.found(compared(f"{what} ÷ raw SELECT of {_LISTED} rows", "history", "SELECT", samples, bar=5))
    if peer is not None:
        bench.found(compared(f"LangGraph's list of the newest {_LISTED} ÷ ours", _LIST, "history", samples))
