"""A real receiver of webhooks on a free port, which answers as it is told to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

Answer = Callable[[socket.socket], object]


class Request(NamedTuple):
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


def says(text: str) -> Answer:
    """Answer with these bytes and hang up."""
    return lambda connection: connection.sendall(text.replace("\n", "\r\n").encode())


def status(code: int, *headers: str) -> Answer:
    return says("\n".join([f"HTTP/1.1 {code} Said", "content-length: 0", *headers, "", ""]))


OK = status(200)


class Receiver:
    """Gives each connection the next answer, the last one again and again, and remembers what came."""

    def __init__(self, *answers: Answer, host: str = "127.0.0.1", port: int = 0) -> None:
        self.requests: list[Request] = []
        self.ended = threading.Event()  # lets go of answers that wait
        self._answers = list(answers)
        self._listening = socket.create_server((host, port))
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://{host}:{self.port}/hook"

    def serve(self) -> None:
        while not self.ended.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):  # whoever sends may hang up before we do
                self._serve(connection)

    def stop(self) -> None:
        self.ended.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self, connection: socket.socket) -> None:
        self.requests.append(_read(connection))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        answer(connection)


@contextmanager
def receiving(*answers: Answer, host: str = "127.0.0.1", port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver(*answers, host=host, port=port)
    serving = threading.Thread(target=receiver.serve)
    serving.start()
    try:
        yield receiver
    finally:
        receiver.stop()
        serving.join()


def _read(connection: socket.socket) -> Request:
    with connection.makefile("rb") as stream:
        line = stream.readline().decode().strip()
        headers: dict[str, str] = {}
        while text := stream.readline().decode().strip():
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        return Request(line, headers, stream.read(int(headers.get("content-length", "0"))))
