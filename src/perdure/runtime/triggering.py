"""The checkpoints that a run saves by itself: each rides on a write that the run makes anyway.

`core/triggers.py` decides; here it is asked with how far the run is, and the checkpoint is named so that a person
understands it in `thread.history()`.

A loop that keeps the conversation in the state wants the checkpoint of a turn on the write that adds the reply, not on
the record of the answer, or the point would not have the reply in it:

    reply = await call_model(run, fn, messages, "model", settings, checkpoint=False)
    await run.append("messages", reply, checkpoint=turned(run))

and so with the results of tools, `checkpoint=tooled(run, names)`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from perdure.core.calls import Call
from perdure.core.checkpoint import CheckpointMark, check_metadata
from perdure.core.entries import EntryKind, NewEntry
from perdure.core.identity import ThreadKey
from perdure.core.runs import FAILED, PAUSED
from perdure.core.threads import NO_PATCH, ThreadPatch
from perdure.core.triggers import Moment, trigger_of
from perdure.core.writes import Appended

if TYPE_CHECKING:
    from perdure.runtime.run import Run

Upkeep = Callable[[ThreadKey, int], Awaitable[None]]
_KINDS = {Moment.PAUSE: "pause", Moment.ERROR: "recovery"}
_STATUSES = {Moment.PAUSE: PAUSED, Moment.ERROR: FAILED}
_NOTE = 200  # characters


class Triggering:
    """How far a run is, as far as its checkpoints go by that."""

    def __init__(self, run: Run) -> None:
        self.turns = 0  # that it has taken, those of its log included
        self._run = run
        self._last = run.current.micros  # its beginning, or its newest checkpoint
        self._saved = 0  # checkpoints
        self._inside: set[bytes] = set()  # turns inside steps

    def took(self, call: Call) -> None:
        """A turn was taken. One inside a step that is tried again is asked for again, and is the same turn."""
        if call.parent and call.id in self._inside:
            return
        if call.parent:
            self._inside.add(call.id)
        self.turns += 1

    def mark(self, moment: Moment, about: str = "", *, stateful: bool = False) -> CheckpointMark | None:
        """The checkpoint to save now; None when none is wanted, or there is no state that it could be a point of.

        A write that is `stateful` brings the state itself. A pause is a point that people come back to, also before
        there is a state.
        """
        run = self._run
        since = timedelta(microseconds=max(0, run.runtime.clock.now() - self._last))
        trigger = trigger_of(run.runtime.triggers, moment, self.turns, since)
        if trigger is None or not (stateful or run.journal.state_version or moment is Moment.PAUSE):
            return None
        metadata = {"trigger": trigger, "turn": self.turns, "run": run.id}
        return CheckpointMark(
            id="", kind=_KINDS.get(moment, "routine"), status=_STATUSES.get(moment),
            note=_note(moment, self.turns, about), agent=run.current.started.name, metadata=check_metadata(metadata),
        )  # fmt: skip

    async def write(
        self,
        moment: Moment,
        entries: Sequence[NewEntry],
        *,
        about: str = "",
        key: str | None = None,
        patch: ThreadPatch = NO_PATCH,
    ) -> Appended:
        """Write entries, and a checkpoint in the same write where one is due: it costs no commit of its own."""
        journal, mark = self._run.journal, self.mark(moment, about)
        if mark is None:
            return await journal.write(entries, key=key, patch=patch)
        mark = replace(mark, id=journal.engine.ids.checkpoint())
        told = journal.entry(EntryKind.CHECKPOINT_SAVED, mark)
        done = await journal.write([*entries, told], key=key, patch=patch, mark=mark)
        self.saved(done)
        return done

    def saved(self, done: Appended) -> None:
        """A checkpoint is acknowledged. One that stood already is no news."""
        if not done.again:
            self._last = self._run.runtime.clock.now()
            self._saved += 1

    async def ended(self) -> None:
        """The run is over: what the store's policy drops of its checkpoints.

        Not while it goes on: a version that `run.load` gave is asked for again after a crash.
        """
        if self._saved and self._run.runtime.upkeep is not None:
            await self._run.runtime.upkeep(self._run.journal.key, self._saved)


def turned(run: Run) -> CheckpointMark | None:
    """The checkpoint of the newest turn of a model, for `run.append(…, checkpoint=turned(run))` and `run.update`.

    After a crash it may be asked for again: the write stands under its own key, so that it is saved once.
    """
    return run.triggering.mark(Moment.TURN, stateful=True)


def tooled(run: Run, names: Sequence[str]) -> CheckpointMark | None:
    """The same for the write that adds the results of these tools."""
    return run.triggering.mark(Moment.TOOL, ", ".join(names), stateful=True) if names else None


def _note(moment: Moment, turns: int, about: str) -> str:
    words = {
        Moment.TURN: f"after turn {turns}", Moment.TOOL: f"after tool {about}",
        Moment.BEFORE_MODEL: f"before turn {turns + 1}", Moment.PAUSE: about,
        Moment.ERROR: f"failed: {about}", Moment.END: "at the end",
    }  # fmt: skip
    return words[moment][:_NOTE]
