"""A link that is so many milliseconds long, and as wide as loopback: each piece arrives that much later."""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 1 << 18
_Pieces = queue.SimpleQueue[tuple[float, bytes]]


class Link:
    """Forwards to a server; `round_trip` seconds are half on the way there and half on the way back.

    `perdure.testing.proxy` holds one piece back after the other, as a test of faults wants it; here pieces travel
    together, or a large answer would take many times the length of the link.
    """

    def __init__(self, url: str, round_trip: float) -> None:
        server = urlsplit(url)
        self._target = (server.hostname or "127.0.0.1", server.port or 5432)
        self._delay = round_trip / 2
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        port = self._listener.getsockname()[1]
        self.url = server._replace(netloc=f"{server.username}@127.0.0.1:{port}").geturl()

    def __enter__(self) -> Self:
        _on_thread(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                for source, target in ((client, server), (server, client)):
                    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._forward(source, target)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        pieces: _Pieces = queue.SimpleQueue()

        def read() -> None:
            data = b"-"
            while data:
                try:
                    data = source.recv(_CHUNK)
                except OSError:
                    data = b""
                pieces.put((time.monotonic() + self._delay, data))

        def write() -> None:
            with suppress(OSError):
                while True:
                    due, data = pieces.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    if not data:
                        return target.shutdown(socket.SHUT_WR)
                    target.sendall(data)

        _on_thread(read)
        _on_thread(write)


def _on_thread(work: object) -> None:
    threading.Thread(target=work, name="link", daemon=True).start()  # type: ignore[arg-type]
