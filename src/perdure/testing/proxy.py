"""A TCP proxy that breaks connections on demand: late, cut, half open, refused, cut after so many bytes.

It runs on a thread and an event loop of its own, so that a test may switch it from anywhere while clients, blocking
or not, are using it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from perdure.testing.servers.ports import LOOPBACK, Port

_CHUNK = 65536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with no time: closing sends RST


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What has gone through so far."""

    connections: int  # accepted since the start
    open: int  # of those, still there
    to_server: int  # bytes forwarded
    to_client: int


class FaultProxy:
    """A proxy on a loopback port in front of `port` on `host`; `with` starts and closes it.

    Switches take effect at once and are safe from any thread. A delay, a silence and a refusal hold until `heal`;
    a cut happens once.
    """

    def __init__(self, port: int, host: str = LOOPBACK) -> None:
        self._target = (host, port)
        self._port = Port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._goodbyes: dict[asyncio.Task[Any], _End] = {}
        self._to_server, self._to_client = _Way(), _Way()
        self._connections = 0

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self._port.number

    @property
    def traffic(self) -> Traffic:
        """What has gone through so far."""
        return Traffic(
            connections=self._connections,
            open=len(self._links),
            to_server=self._to_server.forwarded,
            to_client=self._to_client.forwarded,
        )

    def start(self) -> int:
        """Listen, and return the port."""
        self._thread.start()
        self._on_loop(self._listen())
        return self.port

    def close(self) -> None:
        """Cut everything and end the thread; a second time does nothing."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._on_loop(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        self._port.release()

    def delay(self, seconds: float, *, to_server: bool = True, to_client: bool = True) -> None:
        """Hold each piece of data back for so long, in the directions named."""

        async def switch() -> None:
            for way in self._ways(to_server, to_client):
                way.delay = seconds
                way.prompt.clear()

        self._on_loop(switch())

    def half_open(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Forward nothing more in the directions named, and keep all connections open: silence, no error."""

        async def switch() -> None:
            for way in self._ways(to_server, to_client):
                way.flowing.clear()

        self._on_loop(switch())

    def cut(self) -> None:
        """Reset all connections now; new ones are welcome."""
        self._on_loop(self._cut())

    def cut_after(self, *, bytes_to_server: int | None = None, bytes_to_client: int | None = None) -> None:
        """Forward exactly so many more bytes in a direction, counted over all connections, then cut, once.

        With none left to forward the next byte makes the cut: under `bytes_to_client=0` the server gets a COMMIT and
        does it, and its answer is lost.
        """

        async def switch() -> None:
            self._to_server.left, self._to_client.left = bytes_to_server, bytes_to_client

        self._on_loop(switch())

    def refuse(self) -> None:
        """Stop listening: new connections are refused, those that are there go on."""
        self._on_loop(self._unlisten())

    def heal(self) -> None:
        """Undo every fault: what was held back flows on, and connections are accepted at the same port."""

        async def switch() -> None:
            for way in (self._to_server, self._to_client):
                way.heal()
            if self._listener is None:
                await self._listen()

        self._on_loop(switch())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ways(self, to_server: bool, to_client: bool) -> list[_Way]:
        return [self._to_server] * to_server + [self._to_client] * to_client

    def _on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._serve, LOOPBACK, self.port, limit=_CHUNK)

    async def _unlisten(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None

    async def _end(self) -> None:
        await self._unlisten()
        tasks = [task for link in self._links for task in link.tasks] + list(self._goodbyes)
        parting = list(self._goodbyes.values())
        await self._cut()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in parting:
            end.abort()  # a task that was cancelled before its first step has closed nothing

    async def _cut(self) -> None:
        for link in list(self._links):
            self._reset(link)

    def _reset(self, link: _Link) -> None:
        self._links.discard(link)
        for task in link.tasks:
            if task is not asyncio.current_task():  # which ends by itself
                task.cancel()
        for end in link.ends:
            end.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        client = _End(reader, writer)
        link = _Link(tasks=_current(), ends=[client])
        self._links.add(link)
        try:
            await self._join(link, client)
        except (OSError, asyncio.CancelledError):  # one end broke off, or we cut: so does the other
            self._reset(link)
        self._links.discard(link)

    async def _join(self, link: _Link, client: _End) -> None:
        """Connect to the server and forward both ways, until both ends have said their last word."""
        server = _End(*await asyncio.open_connection(*self._target, limit=_CHUNK))
        link.ends.append(server)
        up = asyncio.create_task(self._pump(link, client, server, self._to_server))
        down = asyncio.create_task(self._pump(link, server, client, self._to_client))
        link.tasks += [up, down]
        await asyncio.gather(up, down)
        for end in link.ends:
            self._say_goodbye(end, [up, down])

    async def _pump(self, link: _Link, source: _End, target: _End, way: _Way) -> None:
        while data := await source.reader.read(_CHUNK):
            await way.hold()
            target.writer.write(way.take(data))
            if way.left == 0:
                way.left = None
                return await self._cut_behind(link, target)
            await target.writer.drain()
        await way.hold()
        target.writer.write_eof()

    async def _cut_behind(self, link: _Link, target: _End) -> None:
        """Cut, but let the bytes that were to arrive do so: a reset would overtake them."""
        link.ends.remove(target)
        self._say_goodbye(target, link.tasks)
        await self._cut()

    def _say_goodbye(self, end: _End, users: list[asyncio.Task[Any]]) -> None:
        task = asyncio.create_task(end.part(users))
        self._goodbyes[task] = end
        task.add_done_callback(self._goodbyes.pop)


@dataclass(slots=True, eq=False)
class _End:
    """A connection, to a client or to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        """Close with a reset: the other side learns at once that this is no polite end."""
        sock = self.writer.get_extra_info("socket")
        if sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.writer.transport.abort()

    async def part(self, users: list[asyncio.Task[Any]]) -> None:
        """Close once all that was written has arrived and `users` are done with it."""
        try:
            await asyncio.wait(users)
            self.writer.write_eof()
            while await self.reader.read(_CHUNK):  # closing with words unread would be a reset
                pass
        except (OSError, asyncio.CancelledError):
            self.abort()
        self.writer.close()


@dataclass(slots=True, eq=False)
class _Link:
    """A client's connection, ours to the server, and the tasks that work for them."""

    tasks: list[asyncio.Task[Any]]
    ends: list[_End]


@dataclass(slots=True)
class _Way:
    """One direction, over all connections."""

    forwarded: int = 0
    left: int | None = None  # bytes until the cut
    delay: float = 0.0
    prompt: asyncio.Event = field(default_factory=asyncio.Event)  # set while there is no delay
    flowing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.heal()

    def heal(self) -> None:
        self.left = None
        self.prompt.set()
        self.flowing.set()

    async def hold(self) -> None:
        """Wait as long as the faults of this direction say; healing ends the wait."""
        if not self.prompt.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.prompt.wait(), self.delay)
        await self.flowing.wait()

    def take(self, data: bytes) -> bytes:
        """The part of `data` that may pass."""
        passing = data if self.left is None else data[: self.left]
        if self.left is not None:
            self.left -= len(passing)
        self.forwarded += len(passing)
        return passing


def _current() -> list[asyncio.Task[Any]]:
    return [task] if (task := asyncio.current_task()) else []
