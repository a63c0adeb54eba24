"""A MariaDB of our own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from perdure.testing.servers.binaries import MARIADB, ServerMissing
from perdure.testing.servers.ports import LOOPBACK, answer
from perdure.testing.servers.server import Server

_USER = "root"
_PROTOCOL = 10  # the fifth byte of a greeting; an error has 255 there
_HASTY = {
    "innodb-flush-log-at-trx-commit": "0",
    "sync-binlog": "0",
    "innodb-doublewrite": "0",
    "innodb-file-per-table": "0",  # making and dropping databases takes half as long
    "loose-innodb-flush-method": "nosync",
    "loose-debug-no-sync": "1",
}
_TABLES = ("system_tables", "performance_tables", "system_tables_data")


class MariadbServer(Server):
    """A MariaDB whose user `root` needs no password."""

    programs = MARIADB

    @property
    def url(self) -> str:
        """The way in, to no database in particular."""
        return self.address()

    def address(self, database: str = "") -> str:
        """The url of a database."""
        return f"mysql://{_USER}@{LOOPBACK}:{self.port}/{quote(database, safe='')}"

    def database(self, name: str) -> str:
        """Make an empty database and return its url."""
        self.sql(f"CREATE DATABASE {mysql_quoted(name)}")
        return self.address(name)

    def drop(self, name: str) -> None:
        """Remove a database."""
        self.sql(f"DROP DATABASE {mysql_quoted(name)}")

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement and return its rows."""
        # Without TLS: making a context for it takes ten times as long as making a database.
        where = {"host": LOOPBACK, "port": self.port, "user": _USER, "ssl_disabled": True}
        return mysql_sql(where, statement)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _initialise(self) -> None:
        """Make the system tables as mariadb-install-db does, which needs a tool that Debian packs with the client."""
        scripts = "".join(path.read_text() for path in self._scripts())
        self._run(("rm", "-rf", self._data))
        self._run(("mkdir", self._data))
        feed = f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n{scripts}"
        self._run((self._program, "--no-defaults", "--bootstrap", *_options(self._usual() | _HASTY)), feed)

    def _scripts(self) -> list[Path]:
        """The files that make the system tables; their names begin with `mysql_` or, since 11, with `mariadb_`."""
        for place in (
            base / "share" / name for base in self._program.resolve().parents for name in ("mariadb", "mysql")
        ):
            found = [next(iter(sorted(place.glob(f"m*_{table}.sql"))), None) for table in _TABLES]
            if scripts := [path for path in found if path]:
                return scripts
        raise ServerMissing("mysql_system_tables.sql", MARIADB.install)

    def _command(self) -> list[str | Path]:
        options = self._usual() | ({} if self._durable else _HASTY) | self._settings
        return [self._program, "--no-defaults", *_options(options)]

    def _usual(self) -> dict[str, str]:
        return {
            "datadir": str(self._data),
            "tmpdir": str(self._data),
            "socket": "mariadb.sock",  # in the data folder: a whole path may be longer than a socket's may be
            "pid-file": "mariadb.pid",
            "port": str(self.port),
            "bind-address": LOOPBACK,
            "skip-networking": "0",
            "skip-name-resolve": "1",
            "skip-log-bin": "1",
            "character-set-server": "utf8mb4",
            "innodb-buffer-pool-size": "64M",
            "innodb-log-file-size": "32M",
        }

    def _answers(self) -> bool:
        return answer(self.port)[4:5] == bytes([_PROTOCOL])


def mysql_sql(where: Mapping[str, object], statement: str) -> list[tuple[object, ...]]:
    """Run a statement over a connection of its own: the package of the server has no client."""
    import pymysql

    with pymysql.connect(**where, autocommit=True) as connection, connection.cursor() as cursor:  # type: ignore[call-overload]
        cursor.execute(statement)
        return list(cursor.fetchall())


def mysql_quoted(name: str) -> str:
    """A name as MySQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def _options(settings: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in settings.items()]
