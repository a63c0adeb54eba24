"""What counts as a fault, and counting it: foreign rows, executions, untyped errors, broken promises, memory."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from perdure.errors import PerdureError
from tests.hostile.canary import Canary
from tests.hostile.scene import leaks

MOST_MEGABYTES = 512
_MOST_CPU_SECONDS = 30.0  # of this process, for one call: a pattern that never ends is a fault, a busy machine is none
_SHOWN = 20


class Tally(msgspec.Struct):
    """What a campaign on one storage came to; two add up."""

    backend: str
    inputs: list[str] = []
    calls: int = 0
    foreign: list[str] = []
    executions: list[str] = []
    untyped: list[str] = []
    broken: list[str] = []
    megabytes: int = 0

    @property
    def faults(self) -> list[str]:
        """Everything that went wrong, in words."""
        kinds = ("foreign", "executions", "untyped", "broken")
        found = [f"{self.backend}: {kind}: {each}" for kind in kinds for each in getattr(self, kind)[:_SHOWN]]
        if self.megabytes > MOST_MEGABYTES:
            found.append(f"{self.backend}: {self.megabytes} MB of memory, {MOST_MEGABYTES} are allowed")
        return found


class Judge:
    """Makes calls, and judges what they answer and raise."""

    def __init__(self, backend: str, canary: Canary) -> None:
        self.tally = Tally(backend)
        self.canary = canary

    async def call(self, what: str, work: Callable[[], Awaitable[Any]], *allowed: type[Exception]) -> Any:
        """The answer, or the error that a call ended in; `allowed` are errors beside those of perdure."""
        self.tally.calls += 1
        begun = time.process_time()
        answer: Any
        try:
            with self.canary.armed():
                answer = await work()
        except (PerdureError, *allowed) as exc:
            answer = exc
        except Exception as exc:
            last = traceback.extract_tb(exc.__traceback__)[-1]
            self.tally.untyped.append(f"{what}: {exc!r:.300} at {last.filename}:{last.lineno}")
            answer = exc
        if (spent := time.process_time() - begun) > _MOST_CPU_SECONDS:
            self.tally.broken.append(f"{what}: took {spent:.0f} s")
        self.see(what, answer)
        return answer

    def see(self, what: str, answer: object) -> None:
        """Look for alice's data in an answer, and for what the canary heard."""
        if leaks(answer):
            self.tally.foreign.append(f"{what}: {answer!r:.300}")
        self.tally.executions += [f"{what}: {each}" for each in self.canary.fired]
        self.canary.fired.clear()

    def broken(self, what: str, problems: list[str] | str) -> None:
        """Promises that an input broke."""
        self.tally.broken += [
            f"{what}: {each}" for each in ([problems] if isinstance(problems, str) else problems) if each
        ]

    def done(self) -> Tally:
        """The counts, with the memory that this process had at most."""
        self.tally.megabytes = peak_megabytes()
        return self.tally


def peak_megabytes() -> int:
    """The most memory that this program had; rusage would count what its parent had before the exec, too."""
    with open("/proc/self/status", encoding="ascii") as file:
        found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
    assert found is not None
    return int(found[1]) >> 10


def summary(tallies: list[Tally]) -> str:
    """The last line of a campaign."""
    inputs = {each for tally in tallies for each in tally.inputs}
    counted = {
        kind: sum(len(getattr(each, kind)) for each in tallies)
        for kind in ("foreign", "executions", "untyped", "broken")
    }
    return (
        f"{len(inputs)} hostile inputs in {sum(each.calls for each in tallies)} calls on {len(tallies)} storages: "
        f"{counted['foreign']} foreign rows, {counted['executions']} executions, {counted['untyped']} untyped errors, "
        f"{counted['broken']} broken promises, peak {max((each.megabytes for each in tallies), default=0)} MB"
    )
