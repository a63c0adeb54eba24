"""The outside world of the demo: a scripted plan, and a file with one line for each side effect."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

DECISION = "decide"
PLAN = {  # what a model would say next, and what comes of it
    "read": "order 1180 arrived broken",
    "customer": "customer since 2019, two orders",
    "order": "one lamp, 89.00 EUR, delivered on Monday",
    "warranty": "valid until May",
    "search": "three similar tickets, all replaced",
    DECISION: "send a replacement",
    "reserve": "lamp reserved in warehouse 2",
    "courier": "courier booked for Thursday",
    "email": "e-mail sent to the customer",
    "label": "return label printed",
    "crm": "note added to the customer's page",
    "close": "ticket closed",
}
STEPS = list(PLAN)


def message(number: int) -> dict[str, str]:
    """About 1.5 KB of conversation."""
    return {"role": "assistant", "content": f"{number} " + "what the agent said, " * 70}


class World:
    """Where steps have effects. It takes each key once, as a good service does, and may end the process."""

    def __init__(self, log: Path, *, pace: float, die_after: int) -> None:
        self._log = log
        self._pace = pace
        self._die_after = die_after

    def act(self, name: str) -> str:
        """Think for a while, then do it, once for each key."""
        time.sleep(self._pace)
        if name in self.effects():
            # An earlier process was killed after the effect and before its record.
            print(f"  found  {name}: it had happened, but was not recorded", flush=True)
        else:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{name}\t{PLAN[name]}\tprocess {os.getpid()}\n")
        return PLAN[name]

    def effects(self) -> list[str]:
        """The keys of what happened, in order."""
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        return [line.split("\t")[0] for line in lines]

    def report(self, name: str, recorded: str) -> None:
        """Say what was done and recorded; end the process here if that was asked for."""
        number = STEPS.index(name) + 1
        print(f"  {number:>2}/{len(STEPS)}  {name:<9} {PLAN[name]:<42} {recorded}", flush=True)
        if number == self._die_after:
            print(f"  kill -9 {os.getpid()}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
