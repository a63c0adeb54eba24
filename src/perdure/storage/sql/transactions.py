"""What a transaction can do, what runs one, and what a server may answer instead."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from perdure.core.errors import StorageBusyError, StorageError, StorageUnavailableError
from perdure.storage.sql.rows import Row
from perdure.storage.sql.statements import Statements

T = TypeVar("T")


class Transaction(Protocol):
    """An open transaction of a database."""

    @property
    def sql(self) -> Statements:
        """The statements in the database's words."""
        ...

    async def rows(self, sql: str, values: Row = ()) -> list[Row]:
        """Run a statement and return all its rows."""
        ...

    async def run(self, sql: str, values: Row = ()) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    async def fill(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Add many rows to a table in the quickest way there is, without holding on to them."""
        ...

    async def moment(self, given: int) -> int:
        """What time it is: the server's, where that is the one that counts, or the caller's."""
        ...


Job = Callable[[Transaction], Coroutine[Any, Any, T]]


class SqlPort(Protocol):
    """Runs one whole transaction: a job is committed when it returns and rolled back when it raises."""

    async def write(self, job: Job[T]) -> T: ...

    async def read(self, job: Job[T], *, alone: bool = False) -> T:
        """A job that asks one question, or several that need not agree, is `alone`: it needs no transaction."""
        ...

    async def glance(self, job: Job[T]) -> T:
        """A job alone that looks for a line or two by an index."""
        ...

    async def pause(self, seconds: float) -> None:
        """Let time pass before another try."""
        ...

    async def disk_bytes(self) -> int: ...

    async def compact(self) -> None:
        """Give disk space that nothing uses back to the system."""
        ...

    async def close(self) -> None: ...


# After a commit whose answer was lost: the answer if it stands, None if it does not.
Landed = Callable[[Transaction, T | None], Coroutine[Any, Any, T | None]]


class Runner(Protocol):
    """What a storage gives its transactions to: a port, or what tries again where a server may be away."""

    async def read(self, job: Job[T], *, alone: bool = False) -> T: ...

    async def glance(self, job: Job[T]) -> T: ...

    async def write(self, job: Job[T], landed: Landed[T] | None = None) -> T: ...

    async def patiently(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Anything that may be done twice."""
        ...


class ServerGone(StorageUnavailableError):
    """The connection was lost before anything was committed."""

    def final(self) -> StorageError:
        """The error for a caller who has waited long enough."""
        return StorageUnavailableError(self.place, self.reason)


class TryAgain(StorageBusyError):
    """Two transactions were in each other's way and this one was undone."""

    def final(self) -> StorageError:
        """The error for a caller who has waited long enough."""
        return StorageBusyError(self.place, self.reason)


class CommitUnknown(StorageUnavailableError):
    """The connection was lost while a transaction was being committed: it may stand or not."""

    def __init__(self, place: str, reason: str, value: Any = None) -> None:
        super().__init__(place, reason)
        self.value = value  # what the transaction would have answered

    def final(self) -> StorageError:
        """The error for a caller who has waited long enough."""
        doubt = f"{self.reason}; the answer to a commit was lost: with the same key it can safely be tried again"
        return StorageUnavailableError(self.place, doubt)
