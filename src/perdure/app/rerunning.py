"""The part of a thread that is about runs: entering one, what a model saw, what a stream gave, doing one again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from perdure.app.naming import Naming
from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_id
from perdure.core.quarantine import check_run

if TYPE_CHECKING:
    from perdure.core.resume import Unfinished
    from perdure.runtime.blocks import Block
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.models import ModelRequest
    from perdure.runtime.streaming import Chunk

Changed = Literal["refuse", "accept"]
Effects = Literal["recorded", "ask", "real"]


class Running(Naming):
    """Runs of one thread."""

    def run(
        self,
        key: str | None = None,
        input: Any = None,
        *,
        unfinished: Unfinished = "resume",
        wait: float | None = None,
        changed: Changed = "refuse",
        traceback: bool | None = None,
    ) -> Block:
        """Run code in this thread: `async with thread.run(key="turn-7") as run:`. What it did is not done again.

        An unfinished run of the same key and input (or of any, when none is given) is resumed; another one that was cut
        off is left behind. With `unfinished="fail"` it raises `UnfinishedRunError` instead, with "abandon" even one
        that waits is left behind. The same key of a run that is over reads everything from the log. Waits for another
        owner up to `wait` seconds (one lease), then raises `LeaseHeldError`. With `changed="accept"`, code that asks
        for something else than the log recorded is let. With `traceback=False` failures are recorded without theirs.
        """
        from perdure.runtime.blocks import Block
        from perdure.runtime.opening import wanted

        checked = None if key is None else check_id(key, "the key")
        running = self._parts.running
        ask = wanted(checked, running.encoded(input), unfinished, changed, self._actor, self._patch, traceback)
        return Block(running.runtime, self._found, ask, wait)

    async def seen(self, ref: object = None) -> ModelRequest:
        """Exactly what the model saw at the newest `run.model` call up to a ref; None is now."""
        from perdure.runtime.models import seen

        row = await self._row(await self._found())
        version = row.head if ref is None else await self._parts.points.version(row, ref)
        return await seen(self._parts.storage, row, version)

    async def streamed(self, after: int = 0) -> list[Chunk]:
        """What `run.stream` gave in this thread after a version: read on from the version of the last chunk.

        A chunk of a newer attempt begins at offset 0: drop what you have of the older one.
        """
        from perdure.runtime.streaming import chunks

        return await chunks(self._parts.storage, await self._found(), after)

    async def rerun(
        self,
        ref: object = None,
        *,
        agent: str | None = None,
        set: Mapping[Any, object] | None = None,
        to: str | None = None,
        effects: Effects = "recorded",
        times: int = 1,
    ) -> list[RunInfo]:
        """Do the run that a ref belongs to again from there, on a fork, and return how far each one came.

        What was recorded up to the ref is read from the log. Tools after it give what they gave the first time; one
        that has no result is asked about. With `effects="ask"` every one is, with "real" they are run. `agent` names
        another handler, `set` changes the state first, `to` is the id of the fork (with `times`, `to-1`, `to-2` …).
        """
        from perdure.core.vocabulary import one_of
        from perdure.runtime.opening import Wanted
        from perdure.runtime.rerunning import original_of

        one_of(effects, ("recorded", "ask", "real"), "effects", InvalidInputError)
        row = await self._row(await self._found())
        check_run(row)
        version = row.head if ref is None else await self._parts.points.version(row, ref)
        running = self._parts.running
        original = (await original_of(running.runtime, row, version)).started
        ask = Wanted(
            name=agent or original.name, input=bytes(original.input), rerun=original.run, effects=effects,
            unfinished="abandon",
        )  # fmt: skip
        running.handlers.of(ask.name, self.id)
        infos: list[RunInfo] = []
        for name in self._names(to, times):
            fork = await self.fork(f"@{version}", to=name)
            if set:
                await fork.update(set=set)  # type: ignore[attr-defined]
            key = await fork._found()
            run = await running.executor.run(key, ask, running.runtime.leases.ttl)
            infos.append(await running.info(key, self._parts.users.shown, run.id))
        return infos

    def _names(self, to: str | None, times: int) -> list[str]:
        if type(times) is not int or times < 1:
            raise InvalidInputError(f"times must be an int from 1 on, not {times!r}")
        name = check_id(to, "the thread id") if to else f"{self.id}~{self._parts.engine.ids.sortable()[-8:]}"
        return [name] if times == 1 else [f"{name}-{number}" for number in range(1, times + 1)]
