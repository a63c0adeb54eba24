"""A loopback port that a server keeps, also while it is down."""

from __future__ import annotations

import contextlib
import random
import socket

LOOPBACK = "127.0.0.1"
# Below the range the system takes ports of outgoing connections from: there a client of a server that is down
# may be given the very port it calls, and be connected to itself.
_RANGE = range(20_000, 32_000)


class Port:
    """A port of our own until `release`."""

    def __init__(self) -> None:
        self._claim, self.number = _claim()

    def release(self) -> None:
        """Let others have it."""
        self._claim.close()


def answer(port: int, question: bytes = b"") -> bytes:
    """The first bytes that a server says, after `question` if it waits for one; none if it does not answer."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=5) as connection:
            connection.sendall(question)
            return connection.recv(100)
    except OSError:
        return b""


def _claim() -> tuple[socket.socket, int]:
    rng = random.SystemRandom()
    while True:
        number = rng.choice(_RANGE)
        # The server needs the TCP port; we hold the UDP port of that number, which tells other test processes.
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            claim.bind((LOOPBACK, number))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, number))
            return claim, number
        claim.close()
