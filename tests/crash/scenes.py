"""The saves that are looked at call by call."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from pathlib import Path

from perdure import sync
from tests.crash.child import call
from tests.crash.strace import Scene
from tests.crash.workload import Model, Op, applied

URLS = {"sqlite": "sqlite:///{folder}/agents.db", "file": "file:{folder}/place"}
THREAD = "alpha"


def scenes(backend: str, root: Path) -> list[Scene]:
    """An ordinary save, one with a large value, one after which a snapshot is due, and the first one ever."""
    return [
        _scene(backend, root, "save", 3, "save"),
        _scene(backend, root, "blob", 3, "blob"),
        _scene(backend, root, "snapshot", 1, "save", scratch=9000, forgives_syncs=True),
        _scene(backend, root, "first", 0, "save", opens=True),
    ]


def load(backend: str, root: Path) -> Scene:
    """Opening a place that is there, and loading the newest state of a thread."""
    scene = _scene(backend, root, "load", 3, "save", opens=True)
    op = replace(scene.op, kind="load", after=scene.model.newest(THREAD))
    return replace(scene, op=op, reads=True)


def _scene(
    backend: str,
    root: Path,
    name: str,
    before: int,
    kind: str,
    scratch: int = 50,
    opens: bool = False,
    forgives_syncs: bool = False,
) -> Scene:
    template = root / f"template-{name}"
    template.mkdir()
    model = Model()
    url = URLS[backend]
    rng = random.Random(name)
    with sync.Perdure.open(url.format(folder=template)) as store:
        for _ in range(before):
            op = _op(model, "save", rng, scratch)
            call(store.thread(THREAD), op, op.after)
            model.accept(op)
    if not before:
        template = root / "template-empty"
        template.mkdir()
    return Scene(
        name=name, url=url, template=template, model=model, op=_op(model, kind, rng, scratch), opens=opens,
        forgives_syncs=forgives_syncs,
    )  # fmt: skip


def _op(model: Model, kind: str, rng: random.Random, scratch: int) -> Op:
    """The next operation, of a seed that gives a state of the wanted size."""
    model.made += 1
    while True:
        op = Op(
            number=model.made, thread=THREAD, kind=kind, key=f"key-{model.made}", seed=rng.getrandbits(32), after=None,
            checkpoint=kind == "save",
        )  # fmt: skip
        after = applied(copy.deepcopy(model.newest(THREAD)), op)
        if kind != "save" or len(after["scratch"]) == scratch:
            return Op(**{**op.__dict__, "after": after})
