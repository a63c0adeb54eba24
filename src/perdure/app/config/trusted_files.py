"""Which files of settings this person has trusted: `perdure config trust`, and the record that it keeps.

The record names a file by its path and the digest of its bytes, so that a file that changed is trusted anew or not at
all. It lies in the person's own configuration folder and is theirs alone: no cloned folder can hold it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping

import msgspec

from perdure.core.errors import StorageIOError, StorageReadOnlyError
from perdure.storage.permissions import PRIVATE, make_folder, open_file

_RECORD_NAME = "trusted-configs.jsonl"
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MAX_RECORD_BYTES = 4 * 1024 * 1024


class _Line(msgspec.Struct, frozen=True, array_like=True):
    digest: str
    path: str


class TrustedFiles:
    """The record of one person."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.path = os.path.join(_config_home(os.environ if environment is None else environment), _RECORD_NAME)

    def has(self, path: str | os.PathLike[str], data: bytes) -> bool:
        """Whether a file with exactly these bytes was trusted at this path."""
        return _line_of(path, data) in self._lines()

    def add(self, path: str | os.PathLike[str], data: bytes) -> None:
        """Trust a file as it is now; raise `StorageError` when that cannot be recorded."""
        line = msgspec.json.encode(_line_of(path, data))
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
            make_folder(folder)
            # One append, with a line break on both sides: one that was cut off by a crash spoils no other.
            handle = open_file(self.path, os.O_RDWR | os.O_APPEND, PRIVATE)
            try:
                self._check_owner(handle)
                os.write(handle, b"\n" + line + b"\n")
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as exc:
            raise StorageIOError(self.path, exc.strerror or str(exc)) from exc

    def _lines(self) -> set[_Line]:
        try:
            handle = open_file(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return set()
        except OSError as exc:
            raise StorageIOError(self.path, exc.strerror or str(exc)) from exc
        with os.fdopen(handle, "rb") as file:
            self._check_owner(handle)
            return {line for each in file.read(_MAX_RECORD_BYTES).splitlines() if (line := _decoded(each)) is not None}

    def _check_owner(self, handle: int) -> None:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
            raise StorageReadOnlyError(self.path, "other accounts may write which files you trust")


def _config_home(environment: Mapping[str, str]) -> str:
    home = environment.get("XDG_CONFIG_HOME", "")
    # A relative one would lie in the working folder, where a stranger's files are; the XDG rules ignore it too.
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "perdure")


def _line_of(path: str | os.PathLike[str], data: bytes) -> _Line:
    # Not every path is UTF-8; the digest of one that is not stands for it.
    name = os.path.realpath(path).encode("utf-8", "surrogateescape")
    return _Line(hashlib.sha256(data).hexdigest(), name.decode("utf-8", "backslashreplace"))


def _decoded(line: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(line, type=_Line)
    except msgspec.MsgspecError:
        return None
