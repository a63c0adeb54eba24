"""What a conversation takes at rest: it grows with what was said, not with its square."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import random
import string
from typing import Any

from langchain_core.messages import HumanMessage

from perdure.testing.langgraph.bench import Bench, NotOffered
from perdure.testing.langgraph.examining import group
from perdure.testing.langgraph.making import at, put, values_at

TURNS, EACH = 100, 1500
MOST = 3.0  # twice the turns are twice the bytes when linear, four times when squared


async def _grown(bench: Bench, message: Any) -> str:
    """Put `TURNS` checkpoints of one message more each, and weigh them half-way and at the end."""
    database = bench.empty()
    if database.size is None:
        raise NotOffered("nothing is at rest")
    lots, weights, said = random.Random(7), list[int](), list[Any]()
    async with bench.saver(database) as saver:
        config = await put(saver, at("warm"), {"messages": []})
        weights.append(database.size())
        config = at("t")
        for turn in range(1, TURNS + 1):
            said = [*said, message("".join(lots.choices(string.ascii_letters + " ", k=EACH)), turn)]
            config = await put(saver, config, {"messages": said}, {"messages": turn}, step=turn)
            if turn in (TURNS // 2, TURNS):
                weights.append(database.size())
        assert len((await values_at(saver, config))["messages"]) == TURNS
    empty, half, full = weights
    growth, times = (full - empty) / max(half - empty, 1), (full - empty) / (TURNS * EACH)
    note = (
        f"{(full - empty) / 1e6:.2f} MB, {times:.1f} × the final state; twice the turns take {growth:.1f} × the bytes"
    )
    assert growth < MOST, note
    return note


async def a_conversation_of_dicts(bench: Bench) -> str:
    return await _grown(bench, lambda text, turn: {"role": "user", "content": text, "id": f"m{turn}"})


async def a_conversation_of_messages(bench: Bench) -> str:
    return await _grown(bench, lambda text, turn: HumanMessage(text, id=f"m{turn}"))


CHECKS = group("sizes", a_conversation_of_dicts, a_conversation_of_messages)
