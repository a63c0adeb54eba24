"""`python -m tests.hostile.campaign`: every hostile input on every storage, each storage in a process of its own.

Ends with 1 when alice's data was seen or changed, anything was executed, an error had no type of ours, or the process
took more memory than it may. `--every 7` tries each seventh input, `--backend sqlite` one storage.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.checkpoints.places import PLACES
from tests.hostile.canary import Canary
from tests.hostile.catalogue import CATALOGUE, Hostile, sample
from tests.hostile.judge import Judge, Tally, summary
from tests.hostile.positions import BY_CATEGORY, EXACT
from tests.hostile.scene import Scene, playing
from tests.hostile.trials import TRIALS

ANYWHERE = "anywhere"  # what needs a storage of its own, or none: files, settings, values
BACKENDS = (*PLACES, "sqlite sync", "postgres sync", ANYWHERE)
_EVERY_TEST = 19  # inputs of which `make test` tries one
_CHECKED_AFTER = 25  # inputs: alice's data is compared
_MORE = (  # each adds its inputs and a trial
    "links", "settings", "receivers", "redis_values", "rows", "files", "arrivals", "terminal",
)  # fmt: skip


def every_of_tests() -> int:
    """Which part of the inputs a test tries: all of them with PERDURE_HOSTILE=all."""
    return 1 if os.environ.get("PERDURE_HOSTILE") == "all" else _EVERY_TEST


def known_inputs() -> list[Hostile]:
    """All of them, those of the other modules too."""
    for module in _MORE:
        importlib.import_module(f"tests.hostile.{module}")
    return CATALOGUE


def run(backend: str, every: int, categories: Sequence[str] = ()) -> Tally:
    """Try the inputs on one storage, in a process of its own."""
    command = [sys.executable, "-m", "tests.hostile.campaign", "--child", backend, "--every", str(every)]
    command += [word for each in categories for word in ("--category", each)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0:
        return Tally(backend, broken=[f"the process ended with {done.returncode}: {done.stderr[-3000:]}"])
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Tally)


def child(backend: str, every: int, categories: Sequence[str]) -> Tally:
    """The same in this process."""
    known_inputs()
    canary = Canary()
    judge = Judge(backend, canary)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "inside").mkdir()
        inputs = [each for each in sample(every) if not categories or each.category in categories]
        asyncio.run(_played(judge, canary, backend, inputs, folder / "inside"))
        judge.broken(
            backend, [f"{each} was made outside of the store" for each in folder.iterdir() if each.name != "inside"]
        )
    return judge.done()


async def _played(judge: Judge, canary: Canary, backend: str, inputs: list[Hostile], folder: Path) -> None:
    kind, _, mode = backend.partition(" ")
    if kind != ANYWHERE:
        async with playing(PLACES[kind](folder), mode or "async", folder, canary) as scene:
            await _on_a_store(judge, scene, [each for each in inputs if each.category in BY_CATEGORY])
    for trial in (each for each in TRIALS if kind in each.backends and not mode):
        if not (chosen := [each for each in inputs if each.category == trial.category]):
            continue
        judge.tally.inputs += map(str, chosen)
        await trial.play(judge, canary, kind, chosen, folder)


async def _on_a_store(judge: Judge, scene: Scene, inputs: list[Hostile]) -> None:
    for at, each in enumerate(inputs):
        judge.tally.inputs.append(str(each))
        await scene.new_desk()
        await _at_each_position(judge, scene, each)
        if at % _CHECKED_AFTER == 0 or each is inputs[-1]:
            judge.broken(str(each), await scene.changed())
    if not inputs:
        return
    report = await scene.store.verify()
    judge.broken("verify", "" if report.ok else f"damage after the inputs: {report!r:.500}")


async def _at_each_position(judge: Judge, scene: Scene, hostile: Hostile) -> None:
    allowed = (TypeError,) if hostile.category == "types" else ()
    for name, step in BY_CATEGORY[hostile.category].items():

        async def work(step: object = step) -> object:
            return await step(scene, hostile.value)  # type: ignore[operator]

        await judge.call(f"{hostile} as {name}", work, *allowed)
    if type(hostile.value) is str and hostile.value not in scene.tried:
        scene.tried.add(hostile.value)
        for name, check in EXACT.items():

            async def checked(check: object = check) -> object:
                return await check(scene, hostile.value)  # type: ignore[operator]

            problems = await judge.call(f"{hostile} in {name}", checked)
            if isinstance(problems, list):
                judge.broken(f"{hostile} in {name}", problems)


def main() -> int:
    """Run as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--category", action="append", default=[])
    parser.add_argument("--child", choices=BACKENDS)
    given = parser.parse_args()
    if given.child:
        print(msgspec.json.encode(child(given.child, given.every, given.category)).decode())
        return 0
    tallies = []
    for backend in given.backend or BACKENDS:
        tallies.append(run(backend, given.every, given.category))
        print(f"{backend:<14} {summary(tallies[-1:])}", flush=True)
    faults = [fault for each in tallies for fault in each.faults]
    print(*faults, sep="\n")
    print(summary(tallies))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
