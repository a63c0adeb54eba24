"""Snapshots: whole states as plain JSON files beside the log.

They are derived: one may be lost or bad without harm, the log has everything. A base is truth, and part of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from posixpath import join

import msgspec

from perdure.core.digest import snapshot_digest
from perdure.core.errors import StorageError
from perdure.core.render import CannotRead
from perdure.core.writes import Snapshot
from perdure.storage.file import files
from perdure.storage.file.bodies import payload_of, shown
from perdure.storage.file.disk import Disk
from perdure.storage.file.lines import CannotReadLine, checked, written

FOLDER, _END = "snapshots", ".json"


class SnapshotFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A snapshot as it is written."""

    size: int  # of the sealed payload; first, so that it can be told from the first bytes of the file
    version: int
    chain: bytes
    digest: bytes
    blobs: tuple[bytes, ...] = ()
    payload: msgspec.Raw = msgspec.Raw(b"")


_FILE = msgspec.json.Decoder(SnapshotFile)


class Snapshots:
    """The snapshots of one thread's folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = join(folder, FOLDER)

    def versions(self) -> list[int]:
        """Which versions there are. Reads no file."""
        stems = [name.partition(".") for name in self._disk.names(self._folder)]
        return [int(stem) for stem, dot, end in stems if dot + end == _END and stem.isdigit()]

    def put(self, snapshot: Snapshot) -> None:
        """Keep one durably, in the place of another of its version."""
        files.make_folder(self._disk, self._folder)
        files.put(self._disk, self._path(snapshot.version), written(_file_of(snapshot)))

    def get(self, version: int) -> Snapshot | None:
        """Read one; None when it is gone or bad, which is then dropped."""
        data = files.get(self._disk, self._path(version))
        try:
            return _snapshot_of(checked(data or b"", _FILE), version)
        except (CannotReadLine, CannotRead):
            with suppress(StorageError):  # a folder that can only be read is restored from too
                self.drop(version)
            return None

    def drop(self, version: int) -> None:
        """Drop the one of this version, if there is one."""
        self.drop_if(lambda each: each == version)

    def drop_if(self, unwanted: Callable[[int], bool]) -> None:
        """Drop those of unwanted versions, for good."""
        found = [version for version in self.versions() if unwanted(version)]
        for version in found:
            self._disk.remove(self._path(version))
        if found:
            self._disk.sync_folder(self._folder)

    def sizes(self) -> list[int]:
        """How many bytes each takes, sealed."""
        return [files.told_size(self._disk, self._path(version)) for version in self.versions()]

    def _path(self, version: int) -> str:
        return join(self._folder, f"{version:016d}{_END}")


def _file_of(snapshot: Snapshot) -> SnapshotFile:
    text = shown(snapshot.payload)
    stored = payload_of(text)
    # The digest is that of chain and payload as stored, and stored it is not compressed.
    digest = snapshot.digest if stored == snapshot.payload else snapshot_digest(snapshot.chain, stored)
    return SnapshotFile(len(stored), snapshot.version, snapshot.chain, digest, snapshot.blobs, text)


def _snapshot_of(file: SnapshotFile, version: int) -> Snapshot:
    if file.version != version:
        raise CannotReadLine(f"is of version {file.version}")
    return Snapshot(
        version=file.version,
        chain=file.chain,
        digest=file.digest,
        payload=payload_of(file.payload),
        blobs=file.blobs,
    )
