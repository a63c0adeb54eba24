"""Signals: values that reach a run from outside, in the order they were sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from perdure.core.calls import told
from perdure.core.codec import decode, encode
from perdure.core.entries import EntryKind
from perdure.core.payload import encode_body
from perdure.core.runs import WAITING
from perdure.runtime.unwinding import Unwinding

if TYPE_CHECKING:
    from perdure.runtime.run import Run
    from perdure.runtime.runtime import Runtime

_LOOK = 5.0  # seconds: a storage tells earlier where it can


class Signal(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The body of `signal.received`."""

    name: str
    value: Raw


decode_signal = msgspec.msgpack.Decoder(Signal).decode


def signal_body(name: str, value: object) -> bytes:
    """The body of a signal."""
    return encode_body(Signal(name, Raw(encode(value, root="signal"))))


class Signals:
    """Finds the signals of a run."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def wait(self, run: Run, name: str, nth: int) -> Any:
        """The n-th signal of a name since the run began. A handler lets go of its thread until it comes."""
        found = await self._found(run, name)
        if len(found) <= nth and run.handled:
            await self._runtime.settled(run, run.scope)
            raise Unwinding(WAITING)
        while len(found) <= nth:
            await self._look_again(run)
            found = await self._found(run, name)
        return found[nth]

    async def _found(self, run: Run, name: str) -> list[Any]:
        key, kinds = run.journal.key, (EntryKind.SIGNAL_RECEIVED,)
        with run.journal.at_work:
            entries = await self._runtime.storage.entries(key, after=run.current.version, kinds=kinds)
        signals = [told(key.id, entry, decode_signal) for entry in entries]
        return [decode(bytes(each.value)) for each in signals if each.name == name]

    async def _look_again(self, run: Run) -> None:
        watch = self._runtime.storage.watch(run.journal.key.namespace)
        try:
            await watch.wait(_LOOK)
        finally:
            await watch.close()
