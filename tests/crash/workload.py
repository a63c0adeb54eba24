"""What the processes that are killed do, planned beforehand: so both sides know what must be there afterwards.

Operations go through the public faces only. A plan is made from a model of plain dicts; the parent keeps the model,
the child that is forked from it keeps a copy and does the work.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

KINDS = ("save", "append", "update", "blob", "fork")
_WEIGHTS = (34, 22, 22, 14, 8)
THREADS = ("alpha", "beta/../gamma", "δέλτα")
LARGE = 70_000  # over the 64 KB from which a value is kept apart


@dataclass(frozen=True, kw_only=True)
class Op:
    """One planned operation, with the state of its thread after it."""

    number: int
    thread: str
    kind: str
    key: str
    seed: int
    after: Any = field(repr=False)
    checkpoint: bool = False
    target: str = ""  # the thread a fork makes

    def args(self) -> dict[str, Any]:
        """The arguments of `update`, or of the state's change in place."""
        return change(random.Random(self.seed), self.kind)


@dataclass
class Model:
    """The acknowledged truth: of each thread the states after each version, and the keys of its entries."""

    states: dict[str, list[Any]] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)
    points: dict[str, dict[int, str]] = field(default_factory=dict)  # version → checkpoint id, "" while unknown
    made: int = 0

    def newest(self, thread: str) -> Any:
        return self.states[thread][-1] if thread in self.states else None

    def accept(self, op: Op, checkpoint: str = "") -> None:
        """The operation stands."""
        if op.kind == "fork":
            self.states[op.target] = list(self.states.get(op.thread, []))
            self.keys[op.target] = list(self.keys.get(op.thread, []))
            self.points[op.target] = dict(self.points.get(op.thread, {}))
            return
        self.states.setdefault(op.thread, []).append(op.after)
        self.keys.setdefault(op.thread, []).append(op.key)
        if op.checkpoint:
            self.points.setdefault(op.thread, {})[len(self.states[op.thread])] = checkpoint


def plan(model: Model, rng: random.Random, count: int) -> list[Op]:
    """So many operations on top of the model; those of one thread build on each other."""
    states = {thread: copy.deepcopy(model.newest(thread)) for thread in model.states}
    return [_next(model, states, rng) for _ in range(count)]


def _next(model: Model, states: dict[str, Any], rng: random.Random) -> Op:
    kind = rng.choices(KINDS, _WEIGHTS)[0]
    # One thread has the large values: a state that holds one is large, and large states get snapshots rarely.
    thread = THREADS[1] if kind == "blob" else rng.choice(THREADS)
    if kind == "fork" and model.newest(thread) is None:
        kind = "save"
    model.made += 1
    op = Op(
        number=model.made, thread=thread, kind=kind, key=f"key-{model.made}", seed=rng.getrandbits(32), after=None,
        checkpoint=kind == "save" or (kind in ("append", "update") and rng.random() < 0.3),
        target=f"{thread}-fork-{model.made}" if kind == "fork" else "",
    )  # fmt: skip
    after = states[thread] = applied(copy.deepcopy(states.get(thread)), op)
    return Op(**{**op.__dict__, "after": copy.deepcopy(after)})


def change(rng: random.Random, kind: str) -> dict[str, Any]:
    """What an operation of this kind does, in the words of `update`."""
    turn = {"role": "user", "content": text(rng, 300), "parts": [rng.random(), {"n": rng.randrange(9)}]}
    if kind == "append":
        return {"append": {"messages": [turn]}}
    if kind == "blob":
        return {"set": {"document": text(rng, LARGE)}, "append": {"messages": [turn]}}
    if kind == "update":
        return {
            "set": {"context": {"city": text(rng, 900), "step": rng.randrange(99)}},
            "append": {"log": [text(rng, 40)]},
        }
    return {}


def text(rng: random.Random, size: int) -> str:
    """Text that hardly compresses."""
    return rng.randbytes((size + 1) // 2).hex()


def applied(state: Any, op: Op) -> Any:
    """Change `state` in place as the operation does, and return it (a new one where there was none)."""
    state = {} if state is None else state
    if op.kind == "save":
        mutate(state, random.Random(op.seed))
        return state
    asked = op.args()
    for path, value in asked.get("set", {}).items():
        state[path] = value
    for path, items in asked.get("append", {}).items():
        state.setdefault(path, []).extend(items)
    return state


def mutate(state: Any, rng: random.Random) -> None:
    """Change a state in place, in the ways that are easily missed."""
    deep = state.setdefault("deep", {"list": [0], "value": 1})
    deep["list"].append(rng.choice([1, True, 1.0, None, "x"]))
    deep["value"] = rng.choice([1, True, 1.0, [1], {"one": 1}])
    messages = state.setdefault("messages", [])
    if messages and rng.random() < 0.6:
        messages[rng.randrange(len(messages))]["parts"][1]["n"] = rng.randrange(10**9)
    if len(messages) > 12:
        del messages[rng.randrange(6, 12) :]
    rng.shuffle(deep["list"])
    state["scratch"] = text(rng, rng.choice([50, 3000, 9000]))
