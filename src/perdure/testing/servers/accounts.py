"""PostgreSQL, MariaDB and PgBouncer refuse to run as root: root lends them an account without rights."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict


class Words(TypedDict, total=False):
    """Arguments for `subprocess`."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a server runs as."""

    name: str
    uid: int
    gid: int

    def words(self) -> Words:
        """The arguments that make `subprocess` start a program as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if os.getuid() == 0 else {}

    def own(self, place: Path) -> None:
        """Hand a file or folder over."""
        if os.getuid() == 0:
            os.chown(place, self.uid, self.gid)

    def reaches(self, folder: Path) -> bool:
        """Whether every folder above `folder` lets this account through."""
        return os.getuid() != 0 or all(_lets(above.stat(), self) for above in folder.absolute().parents)


def unprivileged() -> Account:
    """The account for servers: ours, unless we are root."""
    if os.getuid() != 0:
        return Account(str(os.getuid()), os.getuid(), os.getgid())
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def temporary_folder(account: Account) -> Path:
    """A fresh folder of that account, in a place it reaches."""
    places = (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"))
    place = next((each for each in places if each.is_dir() and account.reaches(each / "x")), places[0])
    made = Path(tempfile.mkdtemp(prefix="perdure-server-", dir=place))
    account.own(made)
    return made


def prepare(folder: Path, account: Account) -> None:
    """Make `folder` and hand it over. Raises `ValueError` where the account could not reach it."""
    folder.mkdir(parents=True, exist_ok=True)
    account.own(folder)
    if not account.reaches(folder):
        raise ValueError(
            f"a server that root starts runs as {account.name}, who cannot reach {folder}: "
            f"take a folder directly under {tempfile.gettempdir()}, or give none"
        )


def remove(folder: Path) -> None:
    """Remove a server's folder; what is gone already is no matter."""
    shutil.rmtree(folder, ignore_errors=True)


def _lets(status: os.stat_result, account: Account) -> bool:
    shift = 6 if status.st_uid == account.uid else 3 if status.st_gid == account.gid else 0
    return bool(status.st_mode >> shift & 1)
