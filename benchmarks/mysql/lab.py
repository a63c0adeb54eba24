"""The server that everybody shares, and a database for each side."""

from __future__ import annotations

import time
from importlib import metadata
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import pymysql

from benchmarks.scale import Scale
from perdure.testing.servers import MariadbServer

_SYNCS = "SHOW GLOBAL STATUS LIKE 'Innodb_data_fsyncs'"


class Lab:
    """A durable MariaDB; its redo log is made whole at the start."""

    def __init__(self, scale: Scale) -> None:
        size = "128M" if scale.quick else "1G"
        settings = {"innodb-log-file-size": size, "innodb-buffer-pool-size": "512M", "sync-binlog": "1"}
        self._server = MariadbServer(durable=True, settings=settings)
        self._homes: list[Home] = []

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def describe(self) -> dict[str, Any]:
        """Versions for the head of the table."""
        version = str(self._server.sql("SELECT version()")[0][0])
        return {"mariadb": version.partition("-")[0], "pymysql": metadata.version("PyMySQL")}

    def home(self, name: str) -> Home:
        """A new database."""
        home = Home(self._server.database(f"{name}_{len(self._homes)}"))
        self._homes.append(home)
        return home

    def syncs(self) -> int:
        """How many times InnoDB waited for the disk so far."""
        return int(str(self._server.sql(_SYNCS)[0][1]))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._homes:
            each.close()
        self._server.close()


def _connected(url: str) -> Any:
    parts = urlsplit(url)
    where: Any = {"host": parts.hostname, "port": parts.port, "user": parts.username, "database": parts.path[1:]}
    return pymysql.connect(**where, autocommit=True, ssl_disabled=True)


class Home:
    """A database of one side's own, and a connection that looks at it between turns."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._keeper = _connected(url)

    def is_used(self) -> bool:
        """Whether Perdure has its tables here."""
        return bool(self._rows("SHOW TABLES LIKE 'perdure\\_entry'"))

    def newest_payload(self) -> int:
        return self._rows("SELECT length(payload) FROM perdure_entry ORDER BY `row` DESC LIMIT 1")[0][0]

    def snapshots(self) -> list[int]:
        return [row for (row,) in self._rows("SELECT `row` & 4294967295 FROM perdure_snapshot")]

    def _rows(self, sql: str) -> list[Any]:
        with self._keeper.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def wal_grew(self) -> bool:
        return False

    def close(self) -> None:
        if self._keeper.open:
            self._keeper.close()


class RawInserts:
    """One blob a commit through PyMySQL: what the disk, the network and MariaDB cost by themselves."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._raw = _connected(home.url)
        self._cursor = self._raw.cursor()
        self._cursor.execute("CREATE TABLE blobs (at bigint AUTO_INCREMENT PRIMARY KEY, body longblob NOT NULL)")

    def commit(self, size: int) -> float:
        """Commit one row of `size` bytes and return the seconds it took."""
        body = b"x" * size
        execute = self._cursor.execute
        start = time.perf_counter()
        execute("INSERT INTO blobs (body) VALUES (%s)", (body,))
        return time.perf_counter() - start

    def close(self) -> None:
        self._raw.close()
        self.home.close()
