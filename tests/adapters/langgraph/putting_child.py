"""A process that puts items into a long-term store, and says so after each.

    python -m tests.adapters.langgraph.putting_child URL NAME COUNT

It says "ready" first and waits for a line of input, so that several begin at the same moment. It never ends by itself
before it is killed or its input ends.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure.adapters.langgraph import PerdureStore

ROOT = Path(__file__).parents[3]
SPACE = ("memories", "alice")


def start(url: str, name: str, count: int) -> subprocess.Popen[str]:
    """A child that waits to be told to begin."""
    command = [sys.executable, "-m", "tests.adapters.langgraph.putting_child", url, name, str(count)]
    child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert said(child) == "ready"
    return child


def begin(child: subprocess.Popen[str]) -> None:
    """Tell it to begin."""
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def said(child: subprocess.Popen[str]) -> str:
    """The next line it says."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def main(url: str, name: str, count: int) -> None:
    """Put items under keys of its own, and each time one under a key that all share."""
    with PerdureStore.open(url) as store:
        store.setup()
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            store.put(SPACE, f"{name}-{number}", {"by": name, "number": number})
            store.put(SPACE, "shared", {"by": name, "number": number})
            print(number, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
