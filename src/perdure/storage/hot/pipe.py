"""A connection onto which commands are put without waiting; another thread reads their answers later, in order."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

Command = tuple[bytes | str | int, ...]


class Pipe:
    """Commands go in on one thread, at once; answers come out on another."""

    def __init__(self, pool: Any) -> None:
        self._connection = pool.get_connection()
        self._lock = threading.Lock()
        self._awaited = 0

    def put(self, commands: Sequence[Command]) -> bool:
        """Send commands; False when the server hung up meanwhile, and nothing was sent."""
        with self._lock:
            idle = self._awaited == 0
            # Where no answer is due, something to read is the end of the connection: a push would vanish in it.
            if not self._connection.is_connected or (idle and self._connection.can_read(timeout=0)):
                return False
            self._awaited += 1
        self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)
        return True

    def take(self, count: int) -> list[Any]:
        """The answers to so many commands, in the order they were put; an error that Redis answers is one of them."""
        try:
            return [self._answer() for _ in range(count)]
        finally:
            with self._lock:
                self._awaited -= 1

    def _answer(self) -> Any:
        from redis.exceptions import ResponseError

        try:
            return self._connection.read_response(disconnect_on_error=False)
        except ResponseError as exc:
            return exc

    def close(self) -> None:
        """Hang up; answers that are still due are lost."""
        with suppress(Exception):  # nothing is promised at closing
            self._connection.disconnect()
