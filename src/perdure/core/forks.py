"""When a fork that is asked for stands already."""

from __future__ import annotations

from perdure.core.errors import ThreadExistsError
from perdure.core.threads import ThreadRow


def same_fork(standing: ThreadRow, parent_uid: str, version: int, target: ThreadRow) -> ThreadRow:
    """Return the thread that stands at the target's key if it is this very fork, made by a try whose answer was lost.

    Raises `ThreadExistsError` when it is any other thread.
    """
    made = (standing.uid, standing.parent_uid, standing.parent_version)
    if made != (target.uid, parent_uid, version):
        raise ThreadExistsError(target.key.id)
    return standing
