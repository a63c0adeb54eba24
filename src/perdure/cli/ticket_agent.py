"""An agent works on a ticket. Kill it whenever you like, and start it again.

python ticket_agent.py              work on the ticket; what is in the log is not done again
python ticket_agent.py what-if      fork the thread before the decision, decide otherwise, compare
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
from pathlib import Path

from ticket_world import DECISION, EFFECTS, STEPS, World

from perdure.errors import PerdureError
from perdure.sync import Perdure, Run, Thread

FOLDER = Path(__file__).parent
TICKET = "ticket-4711"
BEFORE = STEPS[STEPS.index(DECISION) - 1]  # the step before the decision


def work(run: Run, world: World) -> str:
    for name in STEPS:
        result = call(run, world, name)
        version = run.update(set={f"results.{name}": result}, checkpoint=name == BEFORE)
        world.report(name, f"version {version}")
    return result


def call(run: Run, world: World, name: str) -> str:
    if name in EFFECTS:
        return run.tool(name, world.act, name=name)  # that it starts is recorded first, its result afterwards
    return run.step(name, world.look, name)  # its result is recorded; after a crash it is read from the log


def go_on(store: Perdure, world: World) -> str:
    store.handler("support")(lambda run: work(run, world))
    ticket = store.start("support", thread=TICKET, key="4711")  # the same key is the same run
    if ticket.info().status != "finished":
        store.resume(TICKET)  # where the log ends
    return ticket.info().status


def what_if(thread: Thread, remedy: str) -> Thread:
    branch = thread.fork(before(thread), to=f"if {remedy}")  # shares the history
    branch.update(set={f"results.{DECISION}": remedy})
    return branch


def since_then(thread: Thread, ref: str) -> dict[str, object]:
    return {each.path: each.new for each in thread.compare(ref, "@-1").differences}


def before(thread: Thread) -> str:
    """The point before the decision: the only one that was made by hand."""
    return f"@{thread.history(kind='manual')[-1].version}"


def main(asked: argparse.Namespace) -> None:
    """Open the store and do what was asked for."""
    world = World(FOLDER / "effects.log", pace=asked.pace, die_after=asked.die_after, die_in=asked.die_in)
    # A dead owner on this machine is succeeded at once; where nobody can tell, after two seconds without a sign of it.
    with Perdure.open(f"sqlite:///{FOLDER / 'ticket.db'}", lease_ttl=2) as store:
        thread = store.thread(TICKET)
        if asked.what_if:
            return show(thread, what_if(thread, asked.remedy))
        status = go_on(store, world)
        for pause in store.pauses(TICKET):
            print(f"  asked  {pause.ask}", flush=True)
        print(
            f"  the run is {status}; {len(thread.load()['results'])} of {len(STEPS)} results are in the log", flush=True
        )


def show(thread: Thread, branch: Thread) -> None:
    """Print what the two did since they were one."""
    ref = before(thread)
    one, other = since_then(thread, ref), since_then(branch, ref)
    print(f"  {'since ' + ref:<16} {thread.id:<36} {branch.id}")
    for path in one | other:
        print(f"  {path:<16} {one.get(path, '-'):<36} {other.get(path, '-')}")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what_if", nargs="?", choices=["what-if"], help="fork and compare instead of working")
    parser.add_argument("remedy", nargs="?", default="refund 89.00 EUR", help="what the fork decides")
    parser.add_argument("--pace", type=float, default=0.3, help="seconds to think before each step")
    parser.add_argument("--die-after", type=int, default=0, help="kill this process after that step was recorded")
    parser.add_argument("--die-in", default="", help="… or between the effect of this step and its record")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main(arguments())
    except PerdureError as exc:
        raise SystemExit(f"error: {exc}") from exc
