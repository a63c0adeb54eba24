"""The process that is killed: it does planned operations and reports each that was acknowledged.

A report is a line in a pipe: what reached the pipe was acknowledged. `b 7` before operation 7, `a 7 chk_…` after it.
"""

from __future__ import annotations

import asyncio
import copy
import os
import signal
from collections.abc import Sequence
from typing import Any, NoReturn

import perdure
from perdure import sync
from tests.crash.marks import Page, watch
from tests.crash.workload import Model, Op, applied


def become(url: str, mode: str, ops: Sequence[Op], model: Model, page: Page, pipe: int) -> NoReturn:
    """Never returns: works, then waits to be killed."""
    try:
        watch(page)
        worker = Worker(model, page, pipe)
        worker.run_sync(url, ops) if mode == "sync" else asyncio.run(worker.run_async(url, ops))
        page.phase = "between"
        page.finish()
        signal.pause()
    except BaseException as exc:
        os.write(pipe, f"x {type(exc).__name__}: {exc}\n".encode())
    finally:
        os._exit(1)


class Worker:
    """Does operations, sync or async, and says so."""

    def __init__(self, model: Model, page: Page, pipe: int) -> None:
        self._states = {thread: copy.deepcopy(model.newest(thread)) for thread in model.states}
        self._page = page
        self._pipe = pipe
        self._flying: list[Op] = []

    def run_sync(self, url: str, ops: Sequence[Op]) -> None:
        self._page.phase = "migration"
        store = sync.Perdure.open(url).__enter__()
        handles = {op.thread: store.thread(op.thread) for op in ops}
        for op in ops:
            self._begin(op)
            self._ack(op, call(handles[op.thread], op, self._state(op)))

    async def run_async(self, url: str, ops: Sequence[Op]) -> None:
        """The operations of one thread in order, those of different threads at once: they share commits."""
        self._page.phase = "migration"
        store = await perdure.Perdure.open(url).__aenter__()
        lanes = [[op for op in ops if op.thread == thread] for thread in {op.thread: None for op in ops}]
        await asyncio.gather(*(self._lane(store, lane) for lane in lanes))

    async def _lane(self, store: perdure.Perdure, ops: Sequence[Op]) -> None:
        handle = store.thread(ops[0].thread)
        for op in ops:
            self._begin(op)
            self._ack(op, await call(handle, op, self._state(op)))

    def _state(self, op: Op) -> Any:
        """The live state of the thread, changed in place as callers do."""
        self._states[op.thread] = applied(self._states.get(op.thread), op)
        return self._states[op.thread]

    def _begin(self, op: Op) -> None:
        os.write(self._pipe, f"b {op.number}\n".encode())
        self._flying.append(op)
        self._page.phase = op.kind
        self._page.mark()

    def _ack(self, op: Op, answer: Any) -> None:
        point = answer.id if isinstance(answer, perdure.Checkpoint) else ""
        os.write(self._pipe, f"a {op.number} {point}\n".encode())
        self._flying.remove(op)
        self._page.phase = self._flying[-1].kind if self._flying else "between"
        self._page.mark()


def call(handle: Any, op: Op, state: Any) -> Any:
    """Ask for the operation; on the async face the answer is awaited."""
    if op.kind == "save":
        return handle.save(state, key=op.key, note=op.key)
    if op.kind == "fork":
        return handle.fork(to=op.target)
    if op.kind == "load":
        assert handle.load() == state, "another state was loaded"
        return None
    asked = op.args()
    if op.kind == "append":
        return handle.append("messages", *asked["append"]["messages"], key=op.key, checkpoint=op.checkpoint)
    return handle.update(**asked, key=op.key, checkpoint=op.checkpoint)
