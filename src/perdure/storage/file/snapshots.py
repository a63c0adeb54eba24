"""Snapshots: whole states as plain JSON files beside the log.

A derived one may be lost or bad without harm: the log has everything. A base is truth and is never dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from posixpath import join

import msgspec

from perdure.core.digest import snapshot_digest
from perdure.core.errors import EntryDamagedError, StorageError
from perdure.core.render import CannotRead
from perdure.core.writes import Snapshot
from perdure.storage.file import files
from perdure.storage.file.bodies import payload_of, shown
from perdure.storage.file.disk import Disk
from perdure.storage.file.lines import CannotReadLine, checked, written

_FOLDER, _END, _BASE_END = "snapshots", ".json", ".base.json"


class SnapshotFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A snapshot as it is written."""

    size: int  # of the sealed payload; first, so that it can be told from the first bytes of the file
    version: int
    chain: bytes
    digest: bytes
    base: bool = False
    blobs: tuple[bytes, ...] = ()
    payload: msgspec.Raw = msgspec.Raw(b"")


_FILE = msgspec.json.Decoder(SnapshotFile)


class Snapshots:
    """The snapshots of one thread's folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = join(folder, _FOLDER)

    def versions(self) -> dict[int, bool]:
        """Which versions there are, and whether each is a base. Reads no file."""
        found: dict[int, bool] = {}
        for name in self._disk.names(self._folder):
            stem, _, end = name.partition(".")
            if f".{end}" in (_END, _BASE_END) and stem.isdigit():
                found[int(stem)] = f".{end}" == _BASE_END or found.get(int(stem), False)
        return found

    def put(self, snapshot: Snapshot) -> None:
        """Keep one durably; it replaces another of its version, but only a base replaces a base."""
        if self.versions().get(snapshot.version) and not snapshot.base:
            return
        files.make_folder(self._disk, self._folder)
        files.put(self._disk, self._path(snapshot.version, snapshot.base), written(_file_of(snapshot)))
        if snapshot.base:
            self._disk.remove(self._path(snapshot.version, False))

    def get(self, version: int, base: bool, thread_id: str) -> Snapshot | None:
        """Read one; None when a derived one is gone or bad, which is then dropped. Raises for a bad base."""
        data = files.get(self._disk, self._path(version, base))
        try:
            return _snapshot_of(checked(data or b"", _FILE), version)
        except (CannotReadLine, CannotRead) as exc:
            if base:
                raise EntryDamagedError(thread_id, version, f"has a base that {exc}") from exc
            with suppress(StorageError):  # a folder that can only be read is restored from too
                self.drop(version)
            return None

    def drop(self, version: int) -> None:
        """Drop a derived one; a base stays."""
        self._disk.remove(self._path(version, False))
        if self._disk.is_folder(self._folder):
            self._disk.sync_folder(self._folder)

    def keep_until(self, version: int) -> None:
        """Drop all, bases too, of later versions."""
        for later, base in self.versions().items():
            if later > version:
                self._disk.remove(self._path(later, base))

    def base_blobs(self, thread_id: str) -> Iterator[bytes]:
        """The large values that bases hold on to."""
        for version, base in self.versions().items():
            found = self.get(version, True, thread_id) if base else None
            yield from found.blobs if found else ()

    def sizes(self) -> list[int]:
        """How many bytes each takes, sealed."""
        return [files.told_size(self._disk, self._path(version, base)) for version, base in self.versions().items()]

    def _path(self, version: int, base: bool) -> str:
        return join(self._folder, f"{version:016d}{_BASE_END if base else _END}")


def _file_of(snapshot: Snapshot) -> SnapshotFile:
    text = shown(snapshot.payload)
    stored = payload_of(text)
    # The digest is that of chain and payload as stored, and stored it is not compressed.
    digest = snapshot.digest if stored == snapshot.payload else snapshot_digest(snapshot.chain, stored)
    return SnapshotFile(len(stored), snapshot.version, snapshot.chain, digest, snapshot.base, snapshot.blobs, text)


def _snapshot_of(file: SnapshotFile, version: int) -> Snapshot:
    if file.version != version:
        raise CannotReadLine(f"is of version {file.version}")
    return Snapshot(
        version=file.version,
        chain=file.chain,
        digest=file.digest,
        payload=payload_of(file.payload),
        base=file.base,
        blobs=file.blobs,
    )
