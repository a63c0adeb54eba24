"""A user with something of every kind, and what may be found of one afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure.app.store import parts_of
from perdure.app.thread import Thread
from perdure.core.identity import CACHE, MEMORY, RESULTS, SUBGRAPHS, ThreadKey, reserved_namespace
from perdure.memory import MemoryManager
from perdure.storage.contract import Storage
from tests.app.isolation import bare

LARGE = 70_000  # bytes; kept apart from 64 KB on


def storage_of(store: Any) -> Storage:
    """What a store keeps its threads in."""
    return parts_of(_async_store(store)).storage


def _async_store(store: Any) -> Any:
    return getattr(bare(store), "_store", bare(store))


def beside(store: Any, kind: str, user: str, id: str, thread: str = "") -> Thread:
    """A thread that no list shows, as the checkpointers and LangGraph's adapter make it."""
    made = _async_store(store)
    return Thread(parts_of(made), ThreadKey(reserved_namespace(kind, made.namespace, thread), user, id))


def register(store: Any, mode: str) -> None:
    """A handler that calls a tool and then asks a person."""
    if mode == "sync":

        def ask(run: Any) -> Any:
            run.tool("look", lambda word: word, word=run.input)
            return run.pause("sure", ask=f"{run.input}?", args={"word": run.input}).by

        bare(store).handler("ask")(ask)
    else:

        async def ask_async(run: Any) -> Any:
            async def look(word: str) -> str:
                return word

            await run.tool("look", look, word=run.input)
            return (await run.pause("sure", ask=f"{run.input}?", args={"word": run.input})).by

        bare(store).handler("ask")(ask_async)


async def fill(store: Any, user: str, word: str, folder: Path) -> None:
    """Threads, a fork of one that was deleted, messages, a question, an import, what is kept beside; all say `word`."""
    thread = store.thread(f"chat {word}", user=user, agent="support", name=word, tags=(word,), actor=word)
    await thread.append(
        "messages", {"role": "user", "content": f"first {word} words"}, {"role": "user", "content": word}
    )
    state = await thread.load()
    await thread.save({**state, "large": f"{word} " * (LARGE // len(word))}, note=word, metadata={word: word})
    gone = store.thread(f"gone {word}", user=user)
    await gone.save({"word": word, "large": f"{word}-" * (LARGE // len(word))})
    await gone.fork("@-1", to=f"fork {word}")
    await gone.delete()
    await store.start("ask", word, thread=f"job {word}", user=user)
    await store.resume(f"job {word}", user=user)
    await store.export(f"chat {word}", folder / "export", user=user)
    await store.import_(folder / "export", user=user, to=f"import {word}")
    assert await store.search(word, user=user)  # which makes the index
    for kind, thread_id, state in (
        (RESULTS, f"chat {word}", {"call_1": word}),
        (CACHE, word, {word: {"value": word, "until": None}}),
        (MEMORY, f'["{word}"]', {"namespace": [word], "items": {word: {"value": {"is": word}}}}),
    ):
        await beside_update(store, beside(store, kind, user, thread_id), state)
    await beside_update(store, beside(store, SUBGRAPHS, user, word, f"chat {word}"), {"word": word})
    await _run(store, MemoryManager(_async_store(store), user=user).add_text(f"User said {word}", tags=[word]))


async def beside_update(store: Any, thread: Thread, state: dict[str, Any]) -> None:
    await _run(store, thread.update(set={(name,): value for name, value in state.items()}))


async def _run(store: Any, work: Any) -> None:
    if hasattr(bare(store), "_store"):
        bare(store)._run(work)
    else:
        await work


def bytes_of(folder: Path, word: str) -> list[str]:
    """The files under a folder whose names or bytes hold a word, in the encodings that we store texts in."""
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        if word.encode() in str(path.relative_to(folder)).encode() or (
            path.is_file() and word.encode() in path.read_bytes()
        ):
            found.append(str(path.relative_to(folder)))
    return found
