"""A Redis of our own."""

from __future__ import annotations

from pathlib import Path

from perdure.testing.servers.binaries import REDIS
from perdure.testing.servers.ports import LOOPBACK, answer
from perdure.testing.servers.server import Server

_DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": '""'}
_HASTY = {"appendonly": "no", "save": "3600 1"}


class RedisServer(Server):
    """A Redis that syncs every write, or, with `durable=False`, one that keeps its data only when stopped cleanly."""

    programs = REDIS

    @property
    def url(self) -> str:
        """The url of database 0."""
        return self.address()

    def address(self, database: int = 0) -> str:
        """The url of a database; there are 16."""
        return f"redis://{LOOPBACK}:{self.port}/{database}"

    def _command(self) -> list[str | Path]:
        usual = {"port": str(self.port), "bind": LOOPBACK, "dir": f'"{self.folder}"'}
        given = usual | (_DURABLE if self._durable else _HASTY) | self._settings
        config = self.folder / "redis.conf"  # as arguments, 6.2 takes "3600 1" for one word and never saves
        config.write_text("".join(f"{name} {value}\n" for name, value in given.items()))
        return [self._program, config]

    def _answers(self) -> bool:
        return answer(self.port, b"PING\r\n") == b"+PONG\r\n"
