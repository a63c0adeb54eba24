"""What became of acknowledged writes that could not be made as they were promised."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.core.errors import BackgroundWriteError
from perdure.core.identity import ThreadKey


class BrokenPromise(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered about a thread and is not so."""

    key: ThreadKey
    version: int  # up to here the thread is as was promised
    lost: int = 0  # acknowledged writes that are not there
    moved: int = 0  # acknowledged writes that are there, at other versions than was answered
    reason: str

    def joined(self, other: BrokenPromise) -> BrokenPromise:
        """This one and a later one of the same thread."""
        return msgspec.structs.replace(self, lost=self.lost + other.lost, moved=self.moved + other.moved)

    def __str__(self) -> str:
        what = [f"{self.lost} acknowledged writes are lost"] if self.lost else []
        what += [f"{self.moved} acknowledged writes have other versions than was answered"] if self.moved else []
        return f"{' and '.join(what)}; it is as promised up to version {self.version} ({self.reason})"


def broken_promises(broken: Sequence[BrokenPromise]) -> BackgroundWriteError:
    """The error that tells of them."""
    first = broken[0]
    more = f"; and {len(broken) - 1} more threads, see `broken`" if len(broken) > 1 else ""
    return BackgroundWriteError(first.key.id, first.version, f"{first}{more}", tuple(broken))
