"""The storage contract on a database server: a write on the row as it was seen last, in one round trip."""

from __future__ import annotations

from abc import abstractmethod
from time import monotonic

from perdure.core.identity import ThreadKey
from perdure.core.writes import Appended, Write, continues
from perdure.storage.sql import doubts, history
from perdure.storage.sql.retrying import Retrying
from perdure.storage.sql.rows import StoredThread
from perdure.storage.sql.server_time import ServerTime
from perdure.storage.sql.store import SqlStorage
from perdure.storage.sql.transactions import CommitUnknown, ServerGone, SqlPort, Transaction, TryAgain
from perdure.storage.sql.writing import Answer, append_slowly


class ServerStorage(SqlStorage):
    """What PostgreSQL and MariaDB share. A row that nobody has seen, or that moved, is read first and written on then;
    what that does not admit goes step by step, where the rules say why it is refused.
    """

    _run: Retrying

    def __init__(self, port: SqlPort, time: ServerTime | None, *, retry_seconds: float) -> None:
        super().__init__(port, Retrying(port, retry_seconds))
        self._time = time  # None: the caller's counts

    async def append(self, write: Write) -> Appended:
        known = self._known.get(write.key)
        since = known.row.head if known is not None else write.expected or 0
        answer, in_doubt = None, False
        if self._fits(write):
            try:
                answer = await self._on_known_row(write, known)
            except (ServerGone, TryAgain):
                pass
            except CommitUnknown:
                in_doubt = True
        if answer is None:
            answer = await self._run.write(
                lambda tx: self._step_by_step(tx, write),
                lambda tx, made: doubts.landed(tx, write, since, made),
                in_doubt=in_doubt,
            )
        self._remember(write.key, StoredThread(answer[1], answer[0].row))
        return answer[0]

    def _fits(self, write: Write) -> bool:
        """Whether a write may be made in one round trip at all."""
        return write.since is None and write.is_plain and not write.blobs

    async def _on_known_row(self, write: Write, known: StoredThread | None) -> Answer | None:
        """The write on the row as it was seen last, else as it is; None where neither admits it."""
        is_timed = self._time is None or self._time.now() is not None
        if known is not None and is_timed and continues(known.row, write):
            done = await self._save(write, known)
            if done is not None:
                return done, known.number
        found = await self._port.glance(lambda tx: self._read_row(tx, write.key))
        is_timed = self._time is None or self._time.now() is not None
        if found is None or not is_timed or not continues(found.row, write):
            return None
        done = await self._save(write, found)
        return None if done is None else (done, found.number)

    async def _read_row(self, tx: Transaction, key: ThreadKey) -> StoredThread | None:
        """The row of a thread; a server whose time counts tells it by the way."""
        asked = monotonic()
        rows = await tx.rows(tx.sql.ROW_AND_TIME, (bytes.fromhex(key.digest()),))
        for *row, now in rows:
            if self._time is not None:
                self._time.hear(now, asked)
            return history.row_of(key, tuple(row))
        return None

    @abstractmethod
    async def _save(self, write: Write, known: StoredThread) -> Appended | None:
        """Make a write that the known row admits, in one round trip; None if the row is another one by now."""

    async def _step_by_step(self, tx: Transaction, write: Write) -> Answer:
        return await append_slowly(tx, write)
