"""Kill the process of an agent before and after every write of its run, and look what was lost, doubled or asked.

    python -m tests.crash.agent_kills [--stream] [--every N]

Approvals are given; about a tool that may have run somebody looks at the world and says what happened.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from perdure import EntryKind, sync
from perdure.core.calls import decode_intent, decode_outcome, told
from tests.crash.agent_world import ONCE, RESULTS, SCRIPT, Death, When, World, live

TURNS = len(SCRIPT)


class Scene:
    """One run that is killed once."""

    def __init__(self, folder: Path, death: Death | None, *, stream: bool) -> None:
        self.folder = folder
        self.world = World(folder)
        self.death = death
        self.questions: list[str] = []
        self.left_open = 0
        self._url = f"sqlite:///{folder}/store.db"
        self._stream = stream

    def play(self) -> bool:
        """Live through it; say whether the process was killed."""
        with sync.Perdure.open(self._url) as store:
            store.start("agent", "go", thread="t")
        killed, over = False, False
        for _ in range(10):
            if not killed:
                killed = self._lived(self.death)
                self.left_open = self._open() if killed else 0
            elif self._lived(None):
                raise AssertionError("nobody killed it")
            over = over or self._answered()
            if over:
                break
        return killed

    def _lived(self, death: Death | None) -> bool:
        if self.death is None:  # in this process: children have what it imports
            asyncio.run(live(self._url, self.world, None, stream=self._stream))
            return False
        child = os.fork()
        if child == 0:
            asyncio.run(live(self._url, self.world, death, stream=self._stream))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL), code
        return code != 0

    def _open(self) -> int:
        """How many tools said that they start, and nothing more."""
        with sync.Perdure.open(self._url) as store:
            entries = store.thread("t").entries()
        started = {told("t", each, decode_intent).call.id for each in entries if each.kind is EntryKind.TOOL_STARTED}
        ended = {told("t", each, decode_outcome).call.id for each in entries if each.kind is EntryKind.TOOL_FINISHED}
        return len(started - ended)

    def _answered(self) -> bool:
        """Answer what is asked; say whether the run is over."""
        with sync.Perdure.open(self._url) as store:
            for pause in store.pauses("t"):
                self.questions.append(pause.name)
                ran = next((each for each in ONCE if _is_about(pause, each) and self.world.happened()[each]), None)
                unverified = pause.name.startswith("unverified")
                answer = RESULTS[ran] if unverified and ran else None
                store.decide(pause, approved=not answer, by="the driver", answer=answer)
            return store.runs()[0].status in ("finished", "dead")

    def wrong(self, expected: list[Any]) -> list[str]:
        """What is not as it should be."""
        with sync.Perdure.open(self._url) as store:
            info, state = store.runs()[0], store.thread("t").load()
            faults = [str(each) for each in store.verify().damaged]
        if (info.status, info.result) != ("finished", SCRIPT[-1]):
            faults.append(f"is {info.status} with {info.result!r} {info.error}")
        if state["messages"] != expected:
            faults.append(f"the conversation is {state['messages']}")
        return [*faults, *self._miscounted()]

    def _answer_was_lost(self) -> bool:
        """Whether the process died between an answer of the model and its record: only then it is asked again."""
        died, before = (
            next(iter(self.world.happened("death")), ""),
            self.death is not None and self.death.when == "before",
        )
        if self._stream:
            return died == "step.streamed" or (before and died == "step.finished")
        return before and died == "step.finished model.called"

    def _miscounted(self) -> list[str]:
        cut_off = self._answer_was_lost()
        asked = self.world.happened("model")
        counts = sorted(asked.values())
        faults = [] if len(asked) == TURNS and counts == [1] * (TURNS - cut_off) + [2] * cut_off else [f"asked {asked}"]
        faults += [
            f"{each} ran {self.world.happened()[each]} times" for each in ONCE if self.world.happened()[each] != 1
        ]
        if not 1 <= self.world.happened()["look Rome"] <= 2:
            faults.append("the tool that may run twice did not run once or twice")
        doubts = [each for each in self.questions if each.startswith("unverified")]
        if len(doubts) != self.left_open or self.questions.count("refund") != 1:
            faults.append(f"was asked {self.questions}, {self.left_open} tools were open")
        return faults


def _is_about(pause: Any, effect: str) -> bool:
    name, _, value = effect.partition(" ")
    return pause.name.endswith(name) and value in map(str, pause.args.values())


def campaign(*, stream: bool, every: int) -> tuple[Counter[str], list[str]]:
    """Every place once, or every n-th; what was killed where, and what went wrong."""
    killed, wrong, expected = Counter[str](), list[str](), list[Any]()
    root = Path(tempfile.mkdtemp(prefix="perdure-agents-"))
    try:
        expected = _undisturbed(root, stream)
        for when in ("before", "after"):
            nth, dies = 1, True
            while dies:
                dies = _one(root, when, nth, stream, expected, killed, wrong)
                nth += every
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return killed, wrong


def _undisturbed(root: Path, stream: bool) -> list[Any]:
    scene = Scene(_folder(root, "none"), None, stream=stream)
    assert not scene.play()
    with sync.Perdure.open(f"sqlite:///{scene.folder}/store.db") as store:
        return store.thread("t").load()["messages"]


def _one(
    root: Path, when: When, nth: int, stream: bool, expected: list[Any], killed: Counter[str], wrong: list[str]
) -> bool:
    scene = Scene(_folder(root, f"{when}-{nth}"), Death(when, nth), stream=stream)
    dies = scene.play()
    place = f"{when} {next(iter(scene.world.happened('death')), 'nothing')}"
    killed[place] += dies
    wrong += [f"killed {place} ({nth}): {each}" for each in scene.wrong(expected)]
    return dies


def _folder(root: Path, name: str) -> Path:
    made = root / name
    made.mkdir()
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    asked = parser.parse_args()
    killed, wrong = campaign(stream=asked.stream, every=asked.every)
    print("\n".join(f"{count:>3} killed {place}" for place, count in sorted(killed.items()) if count))
    print("\n".join(wrong), end="")
    return int(bool(wrong) or killed.total() < 50 / asked.every)


if __name__ == "__main__":
    sys.exit(main())
