"""Who may read what is written to disk: files and folders are for their owner alone, or as `file_mode` says.

A file has its mode from the moment it is made: a mode that is narrowed afterwards is read before that. Nothing here
follows a symbolic link that somebody else may have put in the place of a file.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from typing import NamedTuple

from perdure.core.errors import InvalidInputError

PRIVATE = 0o600
EXPOSED = "other accounts may read or change what is stored here: take that from them, or say file_mode"
_RANDOM_BYTES = 8
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
_OCTAL = re.compile(r"(?:0o|0)?([0-7]{3})")
_EXAMPLE = "such as 0o600, 0o640 or 0o660: its owner may read and write it, and nobody execute it"


class Exposed(NamedTuple):
    """A file or folder that more people may read or change than was asked for."""

    path: str
    mode: int


def check_file_mode(given: object) -> int:
    """The mode, if it is one that files of a store can have; else raise `InvalidInputError`."""
    if type(given) is not int or given & ~0o666 or given & PRIVATE != PRIVATE:
        shown = f"0o{given:o}" if type(given) is int and given >= 0 else repr(given)
        raise InvalidInputError(f"file_mode must be the mode of a file, {_EXAMPLE}; not {shown}")
    return given


def parse_file_mode(given: object) -> int:
    """The mode that was typed in octal digits, as for chmod: 660, 0660 and 0o660 are the same."""
    found = _OCTAL.fullmatch(str(given)) if type(given) in (int, str) else None
    if found is None:
        raise InvalidInputError(f"file_mode must be the mode of a file in octal digits, such as 0660; not {given!r}")
    return check_file_mode(int(found[1], 8))


def folder_mode(file_mode: int) -> int:
    """The mode of a folder: who may read its files may enter it."""
    return file_mode | (file_mode & 0o444) >> 2


def make_file(path: str, file_mode: int) -> int:
    """Make a file, and return its descriptor; raise `FileExistsError` when anything is there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return _widened(os.open(path, flags, file_mode), file_mode)


def open_file(path: str, flags: int, file_mode: int | None = None) -> int:
    """Open a file, which is made first if it is absent and `file_mode` is given. A symbolic link is refused."""
    while True:
        try:
            return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            if file_mode is None:
                raise
        try:
            return make_file(path, file_mode)
        except FileExistsError:
            continue  # somebody else has just made it


def make_database(path: str, file_mode: int) -> None:
    """Make an empty file, where there is none, for a program that would make it readable for everybody.

    A link to a database that is there leads to it; through any other nothing is made.
    """
    try:
        os.close(make_file(path, file_mode))
    except FileExistsError:
        if os.path.islink(path) and not (os.path.exists(path) and os.path.getsize(path)):
            reason = "it is a symbolic link that leads to no database; name the file itself"
            raise OSError(errno.ELOOP, reason, path) from None


def make_folder(path: str, file_mode: int = PRIVATE) -> bool:
    """Make a folder; False when it is there already."""
    mode = folder_mode(file_mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if os.path.isdir(path):
            return False
        raise
    os.close(_widened(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC), mode))
    return True


def _widened(handle: int, mode: int) -> int:
    """The umask may have taken bits that were asked for; nothing else is ever added."""
    try:
        now = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & ~now:
            os.fchmod(handle, now | mode)
    except BaseException:
        os.close(handle)
        raise
    return handle


def temporary_name(path: str) -> str:
    """A name beside a file, for one that will take its place; nobody can foresee it and put something there."""
    return f"{path}.{os.urandom(_RANDOM_BYTES).hex()}.tmp"


def is_temporary(name: str, path: str | None = None) -> bool:
    """Whether this is a temporary name, of any file or of one."""
    found = _TEMPORARY.search(name)
    return found is not None and found.end() == len(name) and path in (None, name[: found.start()])


def exposed(paths: Iterable[str], file_mode: int = PRIVATE) -> list[Exposed]:
    """Which of these may be read or changed by more people than `file_mode` says."""
    found: list[Exposed] = []
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        allowed = folder_mode(file_mode) if stat.S_ISDIR(mode) else file_mode
        others = 0o077 if stat.S_ISDIR(mode) else 0o066
        if mode & others & ~allowed:
            found.append(Exposed(path, stat.S_IMODE(mode)))
    return found
