"""Alice's data, and mallory who tries hostile inputs beside it: every answer and every error is searched for hers."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from perdure.errors import NotFoundError
from tests.checkpoints.places import Place, opened
from tests.hostile.canary import Canary

SECRET = "alicesecret7f3a9c"  # is in everything that alice wrote, and in nothing that mallory names
NAMESPACE = "hostile"
SHARED = "shared"  # both have a thread of this id
BASE = {"list": [1, 2, 3], "text": "abc", "number": 1, "v": "", "a": {}}
_NUMBERS = itertools.count()


class Scene:
    """A store with both of them."""

    def __init__(self, store: Any, folder: Path, place: Place) -> None:
        self.store = store
        self.place = place
        self.folder = folder
        self.alice = store.scope(user="alice")
        self.mallory = store.scope(user="mallory")
        self.tried: set[str] = set()  # texts that were written and read back
        self.desk: Any = None  # mallory's thread for the input that is tried
        self.desk_id = ""
        self.pause = ""
        self.link = ""
        self._before: object = None

    async def prepare(self) -> None:
        """Write alice's data, each kind of it."""
        thread = self.alice.thread(SHARED, agent="agent", name=f"name {SECRET}", tags=[f"tag {SECRET}"])
        await thread.save(
            {"secret": SECRET}, kind="manual", note=SECRET, status=SECRET, metadata={"secret": True, "text": SECRET}
        )
        await thread.append("messages", {"role": "user", "content": f"a state message {SECRET}"})
        await thread.add_messages({"id": f"msg {SECRET}", "role": "user", "content": f"secret word {SECRET}"})
        await thread.tag("@-1", f"point {SECRET}")
        await thread.change(metadata={"secret": True, "text": SECRET})
        await thread.fork(to=f"fork {SECRET}")
        await self.store.start("ask", {"ask": SECRET}, thread=f"paused {SECRET}", user="alice")
        await self.store.resume(f"paused {SECRET}", user="alice")
        (asked,) = await self.alice.pauses()
        self.pause = asked.id
        self.link = await self.store.link(asked.id, by="alice", user="alice")
        await self.mallory.thread(SHARED).save({**BASE, "mine": True})
        self._before = await self._everything()

    async def new_desk(self) -> None:
        """Another thread for mallory: what one input leaves behind does not slow the next one down."""
        self.desk_id = self.name("desk")
        self.desk = self.mallory.thread(self.desk_id)
        await self.desk.save(BASE)
        await self.desk.add_messages({"id": "m1", "role": "user", "content": "hello"})

    def name(self, begin: str) -> str:
        """A name nobody has had."""
        return f"{begin}-{next(_NUMBERS)}"

    async def changed(self) -> str:
        """What of alice's data is not as it was; "" if it all is."""
        try:
            now = await self._everything()
        except NotFoundError as exc:
            return f"alice's data: {exc}"
        return "" if now == self._before else f"alice's data is {now!r:.500}, it was {self._before!r:.500}"

    async def _everything(self) -> object:
        thread = self.alice.thread(SHARED)
        (asked,) = await self.alice.pauses()
        return (
            await thread.load(), await thread.messages(), [each.id for each in await thread.history()],
            (await thread.info()).version, await thread.tagged(),
            sorted(each.id for each in await self.alice.threads()),
            (asked.id, asked.version, asked.status), len(await self.alice.search("secret")),
        )  # fmt: skip


def leaks(answer: object) -> bool:
    """Whether an answer, or an error with all that led to it, holds anything of alice's."""
    with _long_ints():
        if not isinstance(answer, BaseException):
            return SECRET in repr(answer)
        return any(SECRET in f"{each}{each.args!r}{vars(each)!r}" for each in _chain(answer))


def _chain(error: BaseException) -> list[BaseException]:
    """An error and those it came from; a driver's may come from itself."""
    found = [error]
    for each in found:
        found += [near for near in (each.__cause__, each.__context__) if near is not None and near not in found]
    return found


@contextmanager
def _long_ints() -> Generator[None]:
    """An answer may hold an int that Python does not write by default; the errors of the store must not need this."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


@asynccontextmanager
async def playing(place: Place, mode: str, folder: Path, canary: Canary) -> AsyncIterator[Scene]:
    """A scene in a store of its own."""
    async with opened(place, mode, namespace=NAMESPACE) as store:
        _register(store, mode, canary)
        scene = Scene(store, folder, place)
        await scene.prepare()
        yield scene


def _register(store: Any, mode: str, canary: Canary) -> None:
    """The handler of alice's run: its tool is what nobody but she may set off."""

    def fired(**given: object) -> None:
        canary.fire(f"alice's tool, with {given!r:.100}")

    def ask(run: Any) -> None:
        if run.pause("pay", ask=run.input["ask"], args={"text": run.input["ask"]}, who="alice"):
            run.tool("pay", fired)

    async def ask_async(run: Any) -> None:
        if await run.pause("pay", ask=run.input["ask"], args={"text": run.input["ask"]}, who="alice"):
            await run.tool("pay", fired)

    getattr(store, "_inner", store).handler("ask")(ask if mode == "sync" else ask_async)


Step = Callable[[Scene, Any], Awaitable[Any]]
Steps = Mapping[str, Step]
