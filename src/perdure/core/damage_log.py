"""Which threads were skipped because they are damaged: one thread's damage must not stop what is asked about all."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure.core.errors import DamagedError, EntryDamagedError
from perdure.core.ports import Telemetry
from perdure.core.threads import ThreadRow
from perdure.core.verification import Damage

_REMEMBERED = 10_000


class DamageLog:
    """The threads that lists, searches, prunes and recoveries of one store skipped, each told of once."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._skipped: dict[str, tuple[int, Damage]] = {}  # by uid: the head it had, and what was wrong

    @contextmanager
    def skip(self, row: ThreadRow) -> Generator[None]:
        """Go on after the block when this thread turns out to be damaged."""
        try:
            yield
        except DamagedError as exc:
            self.add(row, exc)

    def add(self, row: ThreadRow, error: DamagedError) -> None:
        """A thread was skipped."""
        known = self._skipped.get(row.uid)
        if known is not None and known[0] == row.head:
            return
        if len(self._skipped) >= _REMEMBERED:
            self._skipped.clear()
        self._skipped[row.uid] = row.head, damage_of(row, error)
        self._telemetry.count("perdure.threads.damaged")
        self._telemetry.log("warning", "a damaged thread was skipped", thread=row.key.id, error=str(error))

    def skipped(self) -> list[Damage]:
        """What was skipped since the store was opened."""
        return [damage for _, damage in self._skipped.values()]


def damage_of(row: ThreadRow, error: DamagedError) -> Damage:
    """What an error says of a thread."""
    version = error.version if isinstance(error, EntryDamagedError) else None
    place = "storage" if version is None else f"entry {version}"
    key = row.key
    return Damage(
        thread_id=key.id, user=key.user, namespace=key.namespace, place=place, reason=str(error), version=version
    )
