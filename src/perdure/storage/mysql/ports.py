"""Where connections come from: a small pool for synchronous callers, and one for each event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from itertools import count
from threading import Lock
from time import monotonic
from typing import Any, Protocol
from weakref import ref

from perdure.core.ports import Telemetry
from perdure.storage.mysql.address import Address
from perdure.storage.mysql.errors import NothingFreeError, of_connecting
from perdure.storage.mysql.wires import Wire, connect_in_place, connect_on_loop, in_place_driver, loop_driver
from perdure.storage.ports import pause_in_place, pause_on_loop

_LOOK_SECONDS = 0.1  # after which one who waits for a connection looks again by itself

Password = Callable[[], str] | Callable[[], Awaitable[str]]


class Pool(Protocol):
    """Lends connections, the one that was used last first."""

    async def take(self) -> Wire: ...

    def give(self, wire: Wire) -> None: ...

    def distrust(self) -> None:
        """Close the connections that nobody uses: the server they lead to may be gone."""
        ...

    async def pause(self, seconds: float) -> None: ...

    def close(self) -> None:
        """Close all connections, lent ones as soon as they are given back; never waits."""
        ...


class Idle:
    """The connections that nobody uses."""

    def __init__(self) -> None:
        self._wires: list[Wire] = []
        self._closed = False

    def take(self) -> Wire | None:
        """The one that was used last, if there is any."""
        try:
            return self._wires.pop()
        except IndexError:
            return None

    def give(self, wire: Wire) -> None:
        """Keep a connection for the next, unless it is broken: then the others probably are, too."""
        if wire.lost:
            wire.close()
            self.distrust()
            return
        self._wires.append(wire)
        if self._closed:  # meanwhile
            self.distrust()

    def distrust(self) -> None:
        """Close them."""
        while (wire := self.take()) is not None:
            wire.close()

    def close(self) -> None:
        """Close them, and every one that is given back later."""
        self._closed = True
        self.distrust()


class Permit:
    """Lets its holder have a connection, for as long as somebody has it."""

    __slots__ = ("__weakref__", "number", "turn")

    def __init__(self, number: int) -> None:
        self.number = number
        self.turn = Lock()  # locked while its holder waits; released to have the holder look


class Permits:
    """So many at a time, in order of asking.

    Nothing is counted that a Ctrl-C could keep from being counted back, as a semaphore would: whoever is interrupted on
    the way drops the permit, and it is gone. Numbers, the dict and the locks change in single steps of C. Each waits on
    a lock of its own: a `SimpleQueue` that several wait on may wait for ever, whatever the timeout (Python 3.11), when
    one of them takes what woke another as its time ends.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers = count()
        self._out: dict[int, ref[Permit]] = {}  # in order of asking

    def take(self, seconds: float) -> Permit | None:
        """A permit; None when there is none for so long."""
        permit = Permit(next(self._numbers))
        self._out[permit.number] = ref(permit)
        if len(self._out) <= self._most:
            return permit
        ends = monotonic() + seconds
        permit.turn.acquire(blocking=False)
        while permit not in self._due():
            left = ends - monotonic()
            if left <= 0:
                self.give(permit)
                return None
            # Not for long: the permit of somebody who was interrupted is gone without a word.
            permit.turn.acquire(timeout=min(left, _LOOK_SECONDS))
        return permit

    def give(self, permit: Permit) -> None:
        """Give a permit back, and wake those whose turn it is."""
        self._out.pop(permit.number, None)
        if len(self._out) < self._most:
            return  # nobody waits
        for each in self._due():
            with suppress(RuntimeError):  # it does not wait
                each.turn.release()

    def _due(self) -> list[Permit]:
        """Those who may have a connection, or have one."""
        due: list[Permit] = []
        for number in list(self._out):
            known = self._out.get(number)
            permit = known() if known is not None else None
            if permit is None:
                self._out.pop(number, None)
            else:
                due.append(permit)
            if len(due) == self._most:
                break
        return due


class InPlacePool:
    """Connections for callers on any thread. There is no lock around anything that waits for the server."""

    def __init__(
        self,
        address: Address,
        *,
        most: int,
        patience: float,
        connect_timeout: float,
        call_timeout: float | None,
        password: Callable[[], str] | None,
        telemetry: Telemetry,
    ) -> None:
        self._driver = in_place_driver()
        self._address = address
        self._patience = patience
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._password = password or (lambda: address.password)
        self._telemetry = telemetry
        self._permits = Permits(most)
        self._idle = Idle()

    async def take(self) -> Wire:
        permit = self._permits.take(self._patience)
        if permit is None:
            raise nothing_free(self._address.place, self._patience)
        try:
            wire = self._idle.take() or await self._connect()
        except BaseException:
            self._permits.give(permit)
            raise
        wire.permit = permit
        return wire

    async def _connect(self) -> Wire:
        self._telemetry.count("perdure.mysql.connections")
        limits = (self._connect_timeout, self._call_timeout)
        return await connect_in_place(self._driver, self._address, self._password(), *limits)

    def give(self, wire: Wire) -> None:
        permit, wire.permit = wire.permit, None
        self._idle.give(wire)
        if permit is not None:
            self._permits.give(permit)

    def distrust(self) -> None:
        self._idle.distrust()

    async def pause(self, seconds: float) -> None:
        await pause_in_place(seconds)

    def close(self) -> None:
        self._idle.close()


class Lane:
    """The connections of one event loop."""

    def __init__(self, most: int) -> None:
        self.free = asyncio.Semaphore(most)
        self.idle = Idle()
        self._ending = self._closed_with_the_loop()

    async def watch_loop(self) -> None:
        """Have the connections closed before the loop is."""
        await anext(self._ending)

    async def _closed_with_the_loop(self) -> AsyncGenerator[None, None]:
        # asyncio.run closes generators that are halfway through before it closes the loop: no socket is left behind.
        try:
            yield
        finally:
            self.idle.close()
            await asyncio.sleep(0)


class LoopPool:
    """Connections for asynchronous callers; those of one event loop are of no use to another."""

    def __init__(
        self,
        address: Address,
        *,
        most: int,
        patience: float,
        connect_timeout: float,
        call_timeout: float | None,
        password: Password | None,
        telemetry: Telemetry,
    ) -> None:
        self._driver = loop_driver()
        self._address = address
        self._most = most
        self._patience = patience
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._password: Password = password or (lambda: address.password)
        self._telemetry = telemetry
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}

    async def take(self) -> Wire:
        lane = await self._lane()
        try:
            async with asyncio.timeout(self._patience):
                await lane.free.acquire()
        except TimeoutError:
            raise nothing_free(self._address.place, self._patience) from None
        try:
            return lane.idle.take() or await self._connect()
        except BaseException:
            lane.free.release()
            raise

    async def _lane(self) -> Lane:
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(loop)
        if lane is None:
            for gone in [each for each in list(self._lanes) if each.is_closed()]:
                self._lanes.pop(gone, None)
            lane = self._lanes[loop] = Lane(self._most)
            await lane.watch_loop()
        return lane

    async def _connect(self) -> Wire:
        self._telemetry.count("perdure.mysql.connections")
        password = self._password()
        known = await password if inspect.isawaitable(password) else password
        limits = (self._connect_timeout, self._call_timeout)
        try:
            async with asyncio.timeout(self._connect_timeout):
                return await connect_on_loop(self._driver, self._address, known, *limits)
        except TimeoutError as exc:
            raise of_connecting(self._address.place, exc) from exc

    def give(self, wire: Wire) -> None:
        lane = self._lanes[asyncio.get_running_loop()]
        lane.idle.give(wire)
        lane.free.release()

    def distrust(self) -> None:
        for lane in list(self._lanes.values()):
            lane.idle.distrust()

    async def pause(self, seconds: float) -> None:
        await pause_on_loop(seconds)

    def close(self) -> None:
        here = _running_loop()
        for loop, lane in list(self._lanes.items()):
            if loop is here:
                lane.idle.close()
            else:
                with suppress(RuntimeError):  # a loop that is gone has closed them itself
                    loop.call_soon_threadsafe(lane.idle.close)


def nothing_free(place: str, waited: float) -> NothingFreeError:
    """All connections stay lent."""
    return NothingFreeError(place, f"no connection became free within {waited} s")


def _running_loop() -> Any:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
