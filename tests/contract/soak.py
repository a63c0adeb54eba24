"""The long play: `python -m tests.contract.soak --steps 50000` on every backend, with new random plays each time."""

from __future__ import annotations

import argparse
import time

from perdure.testing.contract import Mode
from tests.contract.backends import BACKENDS, MODES
from tests.contract.stages import machine, play

PLAYS = 25  # between two lines of progress


def main() -> None:
    asked = _arguments()
    for name in asked.backends:
        for mode in asked.modes:
            soak(name, mode, asked.steps // len(asked.modes), asked.shrink)


def soak(name: str, mode: Mode, steps: int, shrink: bool) -> None:
    """Play on one backend until so many operations were done; an assertion ends it and shows the play."""
    player, began = machine(name, mode), time.monotonic()
    while player.steps < steps:
        play(player, PLAYS, repeatable=False, shrink=shrink)
        seconds = time.monotonic() - began
        print(f"{name:8} {mode:6} {player.steps:>7} of {steps} operations, {seconds:6.1f} s", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50_000, help="operations per backend, over both modes")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--shrink", action="store_true", help="take minutes to find the shortest play that fails")
    return parser.parse_args()


if __name__ == "__main__":
    main()
