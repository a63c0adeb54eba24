"""An agent works on a ticket. Kill it whenever you like, and start it again.

python ticket_agent.py              work on the ticket; what is in the log is not done again
python ticket_agent.py what-if      fork the thread before the decision, decide otherwise, compare
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
from pathlib import Path

from ticket_world import DECISION, STEPS, World

from perdure.errors import PerdureError
from perdure.sync import Perdure, Thread

FOLDER = Path(__file__).parent
BEFORE = f"@{STEPS.index(DECISION)}"  # the version before the decision: each step makes one


def work(thread: Thread, world: World) -> None:
    state = thread.load(default={"done": []})  # all that is in the log
    for name in STEPS[len(state["done"]) :]:  # only what is missing
        result = world.act(name)  # the side effect
        version = thread.update(  # one atomic write, on disk when it returns
            set={f"results.{name}": result}, append={"done": [name]}, key=name
        )
        world.report(name, f"version {version}")


def what_if(thread: Thread, remedy: str) -> Thread:
    branch = thread.fork(BEFORE, to=f"if {remedy}")  # shares the history
    branch.update(set={f"results.{DECISION}": remedy}, append={"done": [DECISION]})
    return branch


def since_then(thread: Thread) -> dict[str, object]:
    found = thread.compare(BEFORE, "@-1").differences
    return {difference.path: difference.new for difference in found}


def main(asked: argparse.Namespace) -> None:
    """Open the store and do what was asked for."""
    world = World(FOLDER / "effects.log", pace=asked.pace, die_after=asked.die_after)
    with Perdure.open(f"sqlite:///{FOLDER / 'ticket.db'}") as store:
        thread = store.thread("ticket-4711", agent="support")
        if asked.what_if:
            show(thread, what_if(thread, asked.remedy))
        else:
            work(thread, world)
            print(f"{len(thread.load()['done'])} of {len(STEPS)} steps are in the log", flush=True)


def show(thread: Thread, branch: Thread) -> None:
    """Print what the two did since they were one."""
    one, other = since_then(thread), since_then(branch)
    print(f"  {'since ' + BEFORE:<16} {thread.id:<36} {branch.id}")
    for path in one | other:
        print(f"  {path:<16} {_short(one.get(path)):<36} {_short(other.get(path))}")


def _short(value: object) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value or "-")
    return text if len(text) <= 35 else text[:34] + "…"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what_if", nargs="?", choices=["what-if"], help="fork and compare instead of working")
    parser.add_argument("remedy", nargs="?", default="refund 89.00 EUR", help="what the fork decides")
    parser.add_argument("--pace", type=float, default=0.3, help="seconds to think before each step")
    parser.add_argument("--die-after", type=int, default=0, help="kill this process after that step was recorded")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main(arguments())
    except PerdureError as exc:
        raise SystemExit(f"error: {exc}") from exc
