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
    "charge": "courier paid, 12.50 EUR",
    "crm": "note added to the customer's page",
    "close": "ticket closed",
}
STEPS = list(PLAN)
EFFECTS = STEPS[STEPS.index(DECISION) + 1 :]  # what changes something outside


def message(number: int) -> dict[str, str]:
    """About 1.5 KB of conversation."""
    return {"role": "assistant", "content": f"{number} " + "what the agent said, " * 70}


class World:
    """Where tools have effects, each time they are called. It may end the process."""

    def __init__(self, log: Path, *, pace: float, die_after: int, die_in: str = "") -> None:
        self._log = log
        self._pace = pace
        self._die_after = die_after
        self._die_in = die_in
        self._did: set[str] = set()
        self._in_the_log = 0

    def look(self, name: str) -> str:
        """Think for a while; nothing outside changes."""
        time.sleep(self._pace)
        self._did.add(name)
        return PLAN[name]

    def act(self, name: str, idempotency_key: str = "") -> str:
        """Think for a while, then do it: one line with its key, whoever asks and how often."""
        result = self.look(name)
        with self._log.open("a", encoding="utf-8") as file:
            file.write(f"{name}\t{result}\tkey {idempotency_key}\tprocess {os.getpid()}\n")
        if name == self._die_in:
            print(f"  {'':<5}  {name:<9} {result:<42} happened, and has no record", flush=True)
            self._die()
        return result

    def report(self, name: str, recorded: str) -> None:
        """Say what this process did and recorded; end it here if that was asked for."""
        number = STEPS.index(name) + 1
        if name not in self._did:
            self._in_the_log = number
            return
        if self._in_the_log:
            print(f"  {f'1-{self._in_the_log}':>5}  are in the log: not run again", flush=True)
            self._in_the_log = 0
        print(f"  {number:>2}/{len(STEPS)}  {name:<9} {PLAN[name]:<42} {recorded}", flush=True)
        if number == self._die_after:
            self._die()

    def _die(self) -> None:
        print(f"  kill -9 {os.getpid()}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
