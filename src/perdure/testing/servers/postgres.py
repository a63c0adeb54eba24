"""A PostgreSQL of our own."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from perdure.testing.servers.binaries import OPENSSL, POSTGRES, ServerMissing, beside
from perdure.testing.servers.ports import LOOPBACK
from perdure.testing.servers.server import Server

SUPERUSER = "postgres"
_LONGEST_SOCKET = 107 - len("/.s.PGSQL.65535.lock")
_HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "16MB"}
_HBA = f"""\
local all {SUPERUSER} trust
host all {SUPERUSER} {LOOPBACK}/32 trust
local all all scram-sha-256
host all all {LOOPBACK}/32 scram-sha-256
"""


class PostgresServer(Server):
    """A PostgreSQL whose superuser needs no password; roles made by `role` do.

    With `durable=False` it answers commits early, too: `crash` may then lose the newest of them. With `tls=True` it
    also speaks TLS, with a certificate of its own making for 127.0.0.1.
    """

    programs = POSTGRES
    _stop_signal = signal.SIGINT  # a clean stop that does not wait for clients
    _quick_signal = signal.SIGQUIT  # SIGKILL would leave its shared memory behind

    def __init__(
        self,
        folder: Path | None = None,
        *,
        durable: bool = True,
        tls: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, durable=durable, settings=settings)
        self._psql = beside(self._program, "psql", POSTGRES.install)
        self._initdb = beside(self._program, "initdb", POSTGRES.install)
        self._openssl = OPENSSL.find() if tls else None
        if tls:
            _need(self._program, "ssl")

    @property
    def url(self) -> str:
        """The superuser's way to the database `postgres`."""
        return self.address()

    @property
    def certificate(self) -> Path:
        """The certificate to trust (`sslrootcert`), with `tls=True`."""
        return self._data / "server.crt"

    def address(self, database: str = SUPERUSER, *, user: str = SUPERUSER, password: str | None = None) -> str:
        """The url of a database for a user."""
        return postgres_url(self.port, database, user=user, password=password)

    def database(self, name: str, *, owner: str = SUPERUSER, collation: str | None = None) -> str:
        """Make an empty database and return its url; text is ordered by bytes, or by an ICU `collation` as `en-US`."""
        if collation:
            _need(self._program, "icu")
        self.sql(f"CREATE DATABASE {quoted(name)} OWNER {quoted(owner)} {self._strategy()}{_collated(collation)}")
        return self.address(name)

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.sql(f"DROP DATABASE {quoted(name)} WITH (FORCE)")

    def role(self, name: str, password: str, *, database: str = SUPERUSER) -> str:
        """Make a login that needs its password (SCRAM), and return its url."""
        self.sql(f"CREATE ROLE {quoted(name)} LOGIN PASSWORD {_text(password)}")
        return self.address(database, user=name, password=password)

    def sql(self, statement: str, database: str = SUPERUSER) -> str:
        """Run a statement as the superuser and return its rows, a line each and `|` between columns."""
        words = (self._psql, "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self.address(database), "-c", statement)
        return self._run(words).removesuffix("\n")

    def immediate(self) -> None:
        """Stop it without a checkpoint (`pg_ctl stop -m immediate`): clients are told, the next start recovers."""
        self._end(signal.SIGQUIT)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _initialise(self) -> None:
        words = (
            "-D",
            self._data,
            "-U",
            SUPERUSER,
            "-E",
            "UTF8",
            "--locale=C",
            "-A",
            "trust",
            "-N",
            "--no-instructions",
        )
        self._run(("rm", "-rf", self._data))
        self._run((self._initdb, *words))
        (self._data / "pg_hba.conf").write_text(_HBA)
        if self._openssl:
            self._certify(self._openssl)

    def _certify(self, openssl: Path) -> None:
        """Make a key and a certificate that says who it is, so that clients may insist on it."""
        files = ("-keyout", self._data / "server.key", "-out", self.certificate)
        whom = ("-subj", f"/CN={LOOPBACK}", "-addext", f"subjectAltName=IP:{LOOPBACK}")
        self._run((openssl, "req", "-new", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "3650", *files, *whom))
        self._run(("chmod", "600", self._data / "server.key"))

    def _command(self) -> list[str | Path]:
        given = self._usual() | ({} if self._durable else _HASTY) | self._settings
        return [self._program, "-D", self._data, *(word for pair in given.items() for word in ("-c", "=".join(pair)))]

    def _usual(self) -> dict[str, str]:
        return {
            "port": str(self.port),
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": str(self.folder) if len(str(self.folder)) < _LONGEST_SOCKET else "",
            "max_connections": "100",
            "ssl": "on" if self._openssl else "off",
            "password_encryption": "scram-sha-256",
        }

    def _answers(self) -> bool:
        # What pg_ctl reads: the pid tells the file from the one that a crash left behind.
        pid, lines = self._process.pid if self._process else 0, list[str]()
        with suppress(FileNotFoundError):  # a server that starts takes away what a crash left before it writes its own
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _strategy(self) -> str:
        """Copying files takes half the time of logging pages, unless the checkpoint around it has to reach the disk."""
        version = int((self._data / "PG_VERSION").read_text())
        return "STRATEGY FILE_COPY" if version >= 15 and not self._durable else ""


def postgres_url(port: int, database: str, *, user: str = SUPERUSER, password: str | None = None) -> str:
    """The url of a database on the loopback address."""
    secret = "" if password is None else f":{quote(password, safe='')}"
    return f"postgresql://{quote(user, safe='')}{secret}@{LOOPBACK}:{port}/{quote(database, safe='')}"


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _need(program: Path, part: str) -> None:
    """Raise `ServerMissing` if this PostgreSQL was built without a part; the one from PyPI lacks `ssl` and `icu`."""
    asked = subprocess.run([program.resolve().parent / "pg_config", "--configure"], capture_output=True, text=True)
    if not re.search(rf"--with-(open)?{part}", asked.stdout):
        raise ServerMissing(f"postgres --with-{part}", "apt-get install postgresql")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _collated(locale: str | None) -> str:
    return f" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE {_text(locale)}" if locale else ""
