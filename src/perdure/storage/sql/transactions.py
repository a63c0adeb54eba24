"""What a transaction can do, and what runs one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from perdure.storage.sql.rows import Row

T = TypeVar("T")


class Transaction(Protocol):
    """An open transaction of a database."""

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return all its rows."""
        ...

    async def run(self, sql: str, values: Row = ()) -> int:
        """Run a statement and return how many rows it changed."""
        ...


Job = Callable[[Transaction], Coroutine[Any, Any, T]]


class SqlPort(Protocol):
    """Runs one whole transaction: a job is committed when it returns and rolled back when it raises."""

    async def write(self, job: Job[T]) -> T: ...

    async def read(self, job: Job[T]) -> T: ...

    async def disk_bytes(self) -> int: ...

    def close(self) -> None: ...
