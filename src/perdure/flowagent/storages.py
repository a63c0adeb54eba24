"""The storages that flowagent names, and the servers beside them."""

from __future__ import annotations

import os
from typing import Unpack
from urllib.parse import quote

from perdure.app.options import StorageOptions
from perdure.core.checkpoint import Checkpoint, CheckpointRow
from perdure.core.errors import InvalidInputError
from perdure.core.ports import Clock, Telemetry
from perdure.flowagent.engine_storage import NAMESPACE, EngineStorage
from perdure.storage.drive import drive


class InMemoryCheckpointStorage(EngineStorage):
    """Keeps checkpoints as long as the object lives; with a limit, the newest `max_checkpoints` of all users."""

    def __init__(self, max_checkpoints: int | None = None, *, clock: Clock | None = None) -> None:
        super().__init__("memory://", clock=clock)
        self.max_checkpoints = _limit(max_checkpoints, "max_checkpoints")

    async def _after_a_save(self, saved: Checkpoint) -> None:
        if self.max_checkpoints is not None:
            await self._keep_newest(self.max_checkpoints, None)

    def _read(self, row: CheckpointRow) -> object:
        # Memory never waits, and it belongs to this object: there is no second handle to it.
        return drive(self._store.thread(row.thread_id, user=row.user).load(f"@{row.mark.id}"))


class _PerUser(EngineStorage):
    """A storage with a limit for each user."""

    def __init__(
        self,
        url: str,
        max_checkpoints_per_user: int | None,
        namespace: str,
        clock: Clock | None,
        telemetry: Telemetry | None,
        **options: Unpack[StorageOptions],
    ) -> None:
        super().__init__(url, namespace=namespace, clock=clock, telemetry=telemetry, **options)
        self.max_checkpoints_per_user = _limit(max_checkpoints_per_user, "max_checkpoints_per_user")

    async def _after_a_save(self, saved: Checkpoint) -> None:
        if self.max_checkpoints_per_user is not None:
            await self._keep_newest(self.max_checkpoints_per_user, str(saved.user_id))


class SQLiteCheckpointStorage(_PerUser):
    """Keeps checkpoints in a SQLite database; with a limit, the newest ones of each user."""

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "checkpoints.db",
        max_checkpoints_per_user: int | None = None,
        *,
        namespace: str = NAMESPACE,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
        **options: Unpack[StorageOptions],
    ) -> None:
        url = f"sqlite:///{_path(db_path, 'db_path')}"
        super().__init__(url, max_checkpoints_per_user, namespace, clock, telemetry, **options)


class FileCheckpointStorage(_PerUser):
    """Keeps checkpoints in a folder of readable files; with a limit, the newest ones of each user."""

    def __init__(
        self,
        path: str | os.PathLike[str] = "./checkpoints",
        max_checkpoints_per_user: int | None = None,
        *,
        namespace: str = NAMESPACE,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
        **options: Unpack[StorageOptions],
    ) -> None:
        url = f"file://{_path(path, 'path')}"
        super().__init__(url, max_checkpoints_per_user, namespace, clock, telemetry, **options)


class PostgresCheckpointStorage(_PerUser):
    """Keeps checkpoints in a PostgreSQL database; with a limit, the newest ones of each user."""

    def __init__(
        self,
        dsn: str,
        max_checkpoints_per_user: int | None = None,
        *,
        namespace: str = NAMESPACE,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
        **options: Unpack[StorageOptions],
    ) -> None:
        super().__init__(dsn, max_checkpoints_per_user, namespace, clock, telemetry, **options)


class MySQLCheckpointStorage(_PerUser):
    """Keeps checkpoints in a MySQL or MariaDB database; with a limit, the newest ones of each user."""

    def __init__(
        self,
        dsn: str,
        max_checkpoints_per_user: int | None = None,
        *,
        namespace: str = NAMESPACE,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
        **options: Unpack[StorageOptions],
    ) -> None:
        super().__init__(dsn, max_checkpoints_per_user, namespace, clock, telemetry, **options)


def _limit(limit: object, what: str) -> int | None:
    if limit is None or (type(limit) is int and limit >= 1):
        return limit
    raise InvalidInputError(f"{what} must be an int from 1 on, or None for no limit, not {limit!r}")


def _path(path: object, what: str) -> str:
    """A path as part of an address, absolute now: a later chdir must not move what is opened at the first use."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InvalidInputError(f"{what} must name a file or folder, not {path!r}")
    return quote(os.path.abspath(os.fspath(path)))
