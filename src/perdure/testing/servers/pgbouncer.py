"""A PgBouncer of our own, in front of a PostgreSQL."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from perdure.testing.servers.binaries import PGBOUNCER
from perdure.testing.servers.ports import LOOPBACK, answer
from perdure.testing.servers.postgres import SUPERUSER, postgres_url
from perdure.testing.servers.server import Server

_DOES_IT_SPEAK_TLS = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


class PgBouncer(Server):
    """A pooler for the PostgreSQL on loopback port `upstream`, which may be a `FaultProxy`; the superuser may enter.

    `mode` is `transaction`, `session` or `statement`.
    """

    programs = PGBOUNCER
    _stop_signal = signal.SIGKILL  # SIGTERM waits for clients since 1.23, and a pooler has nothing to lose

    def __init__(
        self,
        upstream: int,
        folder: Path | None = None,
        *,
        mode: str = "transaction",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, settings=settings)
        self._upstream = upstream
        self._mode = mode

    @property
    def url(self) -> str:
        """The superuser's way to the database `postgres`."""
        return self.address()

    def address(self, database: str = SUPERUSER) -> str:
        """The url of a database of the PostgreSQL behind it."""
        return postgres_url(self.port, database)

    def _command(self) -> list[str | Path]:
        users = self.folder / "users"
        users.write_text(f'"{SUPERUSER}" ""\n')
        lines = (f"{name} = {value}\n" for name, value in (self._usual(users) | self._settings).items())
        config = self.folder / "pgbouncer.ini"
        config.write_text(f"[databases]\n* = host={LOOPBACK} port={self._upstream}\n[pgbouncer]\n{''.join(lines)}")
        return [self._program, "-q", config]

    def _usual(self, users: Path) -> dict[str, str]:
        return {
            "listen_addr": LOOPBACK,
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(users),
            "pool_mode": self._mode,
            "default_pool_size": "5",
            "max_client_conn": "200",
            "ignore_startup_parameters": "extra_float_digits",
        }

    def _answers(self) -> bool:
        return answer(self.port, _DOES_IT_SPEAK_TLS)[:1] in (b"N", b"S")
