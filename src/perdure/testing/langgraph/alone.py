"""Uses that may never end, each in a process of its own.

`run()` in a process with the arguments USE MODULE:FUNCTION TEXT … says how it went.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.testing.langgraph.bench import Bench, Face, NotOffered, faces_of
from perdure.testing.langgraph.dying import database_of
from perdure.testing.langgraph.examining import each_of
from perdure.testing.langgraph.making import at, chain, checkpoint, ids, metadata, put

PATIENCE = 15.0  # seconds after it was ready
THREAD = "alone"


async def sync_methods_on_the_thread_of_the_loop(saver: Any) -> str:
    """They work, or refuse at once: whoever waits for its own thread waits for ever."""
    made = checkpoint({"a": 1})
    try:
        saver.put(at(THREAD), made, metadata(), {"a": 1})
        saver.put_writes(at(THREAD, id=made["id"]), [("a", 2)], "task")
        assert saver.get_tuple(at(THREAD)).checkpoint["id"] == made["id"]
    except (AssertionError, NotImplementedError):
        raise
    except Exception as refused:
        return f"refused with {type(refused).__name__}"
    return "they work"


async def writing_while_listing(saver: Any) -> str:
    """With the synchronous methods, or the asynchronous ones of a saver that has only those."""
    offered = await faces_of(saver)
    if "sync" in offered:
        return await asyncio.to_thread(_write_while_listing, saver)
    face = Face(saver, "async")
    await chain(face, THREAD, {"a": 1}, {"a": 2}, {"a": 3})
    async for each in saver.alist(at(THREAD)):
        await face.put_writes(each.config, [("a", 9)], "task")
    return ""


def _write_while_listing(saver: Any) -> str:
    config: Any = at(THREAD)
    for n in range(3):
        config = saver.put(config, checkpoint({"a": n}, {"a": n + 1}), metadata(n), {"a": n + 1})
    for each in saver.list(at(THREAD)):
        saver.put_writes(each.config, [("a", 9)], "task")
    written = [each.pending_writes for each in saver.list(at(THREAD))]
    assert written == [[("task", "a", 9)]] * 3, f"{written}"
    return ""


async def many_threads_at_once(saver: Any) -> str:
    if "sync" not in await faces_of(saver):
        raise NotOffered("no sync methods")
    face = Face(saver, "sync")
    await asyncio.gather(*(chain(face, f"{THREAD} {n}", {"a": n}, {"a": n + 1}) for n in range(16)))
    found = [len(await face.list(at(f"{THREAD} {n}"))) for n in range(16)]
    assert found == [2] * 16, f"{found}"
    return ""


async def one_loop_after_the_other(saver: Any) -> str:
    """A saver made in one event loop and used in another, as in a web framework that has threads."""
    if "async" not in await faces_of(saver):
        raise NotOffered("no async methods")
    face = Face(saver, "async")
    await put(face, at(THREAD), {"a": 1})
    found = await asyncio.to_thread(lambda: asyncio.run(_put_and_list(face)))
    assert found == 2, f"{found} listed"
    return ""


async def _put_and_list(face: Face) -> int:
    await put(face, at(THREAD), {"a": 2}, {"a": 2})
    return len(ids(await face.list(at(THREAD))))


USES: dict[str, Callable[[Any], Awaitable[str]]] = {
    "sync methods on the thread of the loop": sync_methods_on_the_thread_of_the_loop,
    "writing while listing": writing_while_listing,
    "many threads at once": many_threads_at_once,
    "one loop after the other": one_loop_after_the_other,
}


async def used(bench: Bench, use: str) -> str:
    """Let a process do it, and end it when it hangs."""
    database = bench.empty()
    if database.again is None:
        raise NotOffered("another process cannot open it")
    path = os.pathsep.join(each for each in sys.path if each)
    command = (sys.executable, "-c", f"from {__name__} import run; run()", use, *database.again)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, env={**os.environ, "PYTHONPATH": path})
    assert process.stdout is not None
    try:
        assert (await process.stdout.readline()).strip() == b"ready", "it could not be opened"
        async with asyncio.timeout(PATIENCE):
            said = (await process.stdout.readline()).decode().strip()
    except TimeoutError:
        raise AssertionError("it hangs") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()
    return _judged(said)


def _judged(said: str) -> str:
    verdict, _, note = said.partition(" ")
    if verdict == "missing":
        raise NotOffered(note)
    assert verdict == "passed", note or "the process ended"
    return note


async def main(use: str, again: tuple[str, ...]) -> None:
    async with database_of(again).open() as saver:
        await faces_of(saver)
        print("ready", flush=True)
        try:
            said = f"passed {await USES[use](saver)}"
        except (NotOffered, NotImplementedError) as missing:
            said = f"missing {missing}"
        except BaseException as failure:
            said = f"failed {type(failure).__name__}: {failure}"
        print(said.splitlines()[0], flush=True)


CHECKS = each_of("threads and loops", used, {name: name for name in USES})


def run() -> None:
    asyncio.run(main(sys.argv[1], tuple(sys.argv[2:])))
