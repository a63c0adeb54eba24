"""A conversation through `PgCheckpointer`, one state save and its message a turn, beside Agentflow's own.

Two ways to write a turn: *together*, as Agentflow's graph does it (`aput_checkpoint`; there `aput_state_cache` follows,
here the write goes through by itself), and *apart* (`aput_state`, then `aput_messages`; Agentflow's leave Redis alone
then, ours fill it all the same).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from benchmarks.peers.child import Peer, agentflow_sessions
from benchmarks.postgres.lab import Home, Lab, RawInserts
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.stores import as_message
from benchmarks.timing import Step, calm_sum, interleave, ratio, summary, timed
from benchmarks.workload import Turn, conversation
from perdure.checkpointer import AgentState, PgCheckpointer
from perdure.checkpointer.state import built, stored
from perdure.core.codec import decode, encode

OURS, THEIRS = "perdure", "Agentflow 0.10.1"
_TURNS, _QUICK = 300, 60
_EDGE = 30  # turns at each end
_READS = 60
_NO_PEER = "no environment with Agentflow (Python 3.12 or newer: make .venv-peers-312/.ready), or no Redis"
Samples = dict[str, list[float]]


class Conversation:
    """Our side: one message a turn, in the state's context and in the chronicle."""

    def __init__(self, home: Home, redis: str | None, given: list[Turn]) -> None:
        self.home = home
        self._loop = asyncio.new_event_loop()
        self.checkpointer = PgCheckpointer(home.url, redis, pool_max=1)
        self.config = {"thread_id": "w", "user_id": "bench"}
        self.state = AgentState()
        self._turns = given
        self.timed(self.checkpointer.asetup())

    def step(self, at: int) -> float:
        return self.timed(self.checkpointer.aput_checkpoint(self.config, self.state, [self._next(at)]))

    def apart(self, at: int) -> float:
        return self.timed(self._apart(self._next(at)))

    def _next(self, at: int) -> Any:
        message = as_message(self._turns[at])
        self.state.context.append(message)
        return message

    async def _apart(self, message: Any) -> None:
        await self.checkpointer.aput_state(self.config, self.state)
        await self.checkpointer.aput_messages(self.config, [message])

    def read(self) -> float:
        """The newest state, from wherever it is nearest."""
        return self.timed(self.checkpointer.aget_state_cache(self.config))

    def search(self, text: str) -> float:
        """The first call makes the projection and its index."""
        return self.timed(self.checkpointer.alist_messages(self.config, search=text, limit=50))

    def timed(self, work: Coroutine[Any, Any, Any]) -> float:
        async def measured() -> float:
            start = time.perf_counter()
            await work
            return time.perf_counter() - start

        return self._loop.run_until_complete(measured())

    def close(self) -> None:
        self._loop.run_until_complete(self.checkpointer.arelease())
        self._loop.close()
        self.home.close()


def run(bench: Bench) -> None:
    """Play the conversation on both sides turn by turn, look at the bytes, and read it back."""
    lab: Lab = bench.server
    count = _QUICK if bench.scale.quick else _TURNS
    redis = lab.redis()
    for variant in ("words", "random"):
        given = conversation(variant, count)
        _apart(bench, lab, redis, variant, given)
        _together(bench, lab, redis, variant, given)


def _together(bench: Bench, lab: Lab, redis: str | None, variant: Any, given: list[Turn]) -> None:
    ours = Conversation(lab.home(f"sessions_{variant}"), redis, given)
    home = lab.home(f"agentflow_{variant}")
    peer = agentflow_sessions(home.url, redis, variant, len(given)) if redis else None
    raw = RawInserts(lab.home(f"raw_{variant}"))
    steps: dict[str, Step] = {OURS: ours.step} | ({THEIRS: peer.save} if peer else {})
    samples = interleave(f"conversation of {variant}", len(given), steps)
    _speed(bench, samples, f"{variant}, a turn together")
    _edges(bench, samples[OURS], variant)
    _bytes(bench, ours, home if peer else None, variant, given)
    _reads(bench, ours, raw, variant)
    _closed(ours, raw, peer)


def _apart(bench: Bench, lab: Lab, redis: str | None, variant: Any, given: list[Turn]) -> None:
    ours = Conversation(lab.home(f"apart_{variant}"), redis, given)
    home = lab.home(f"agentflow_apart_{variant}")
    peer = agentflow_sessions(home.url, redis, variant, len(given)) if redis else None
    steps: dict[str, Step] = {OURS: ours.apart} | ({THEIRS: _asked(peer)} if peer else {})
    _speed(
        bench, interleave(f"conversation of {variant}, apart", len(given), steps), f"{variant}, state and message apart"
    )
    _closed(ours, peer)


def _asked(peer: Peer) -> Step:
    return lambda at: peer.ask(f"apart {at}")


def _closed(*sides: Conversation | RawInserts | Peer | None) -> None:
    for side in sides:
        if side is not None:
            side.close()


def _speed(bench: Bench, samples: Samples, variant: str) -> None:
    mine = samples[OURS]
    name = f"conversation of {len(mine)} messages ({variant}): times faster than Agentflow's PgCheckpointer"
    if THEIRS not in samples:
        bench.found(Figure(name=name, value=None, note=_NO_PEER))
    else:
        theirs = samples[THEIRS]
        bench.found(
            Figure(
                name=name,
                value=sum(theirs) / sum(mine),
                calm=calm_sum(theirs) / calm_sum(mine),
                bar=8,
                sense="≥",
                judged=not bench.scale.quick,
                note=f"{sum(mine):.2f} s beside {sum(theirs):.2f} s",
                sides={OURS: summary(mine), THEIRS: summary(theirs)},
            )
        )


def _edges(bench: Bench, mine: list[float], variant: str) -> None:
    last, first = mine[-_EDGE:], mine[:_EDGE]
    name = f"conversation ({variant}): last {_EDGE} turns ÷ first {_EDGE}"
    value, calm = ratio(last, first), summary(last).p10 / summary(first).p10
    bench.found(Figure(name=name, value=value, calm=calm, bar=1.5, sense="≤", judged=not bench.scale.quick))


def _bytes(bench: Bench, ours: Conversation, theirs: Home | None, variant: str, given: list[Turn]) -> None:
    text = sum(len(turn.message["content"]) for turn in given)
    size = ours.home.bytes()
    beside = f", Agentflow {theirs.bytes():,}" if theirs else ""
    name, judged = f"conversation ({variant}): bytes ÷ text", not bench.scale.quick
    bench.found(Figure(name=name, value=size / text, bar=3.5, sense="≤", judged=judged, note=f"{size:,}{beside}"))
    first = ours.search("invoice")
    found = ours.home.bytes() - size
    note = (
        f"{found:,} bytes, made by the first search in {first * 1000:.0f} ms; {ours.home.words():,} of them the index"
    )
    bench.found(
        Figure(name=f"conversation ({variant}): lines of messages and index ÷ text", value=found / text, note=note)
    )


def _reads(bench: Bench, ours: Conversation, raw: RawInserts, variant: str) -> None:
    """A cached read is the guard's question to PostgreSQL, and decoding."""
    encoded = encode(stored(ours.state))
    at = raw.keep(encoded)
    steps: dict[str, Step] = {
        "cached read": lambda _: ours.read(),
        "decode": lambda _: timed(lambda: built(decode(encoded), "w")),
        "raw SELECT": lambda _: raw.select(at),
    }
    found = interleave("cached read", _READS, steps)
    allowed = [decoding + 2.5 * select for decoding, select in zip(found["decode"], found["raw SELECT"], strict=True)]
    name = f"conversation ({variant}): cached read ÷ (decoding it + 2.5 × a raw SELECT)"
    sides = found | {"allowed": allowed}
    bench.found(compared(name, "cached read", "allowed", sides, bar=1.0, judged=not bench.scale.quick))
