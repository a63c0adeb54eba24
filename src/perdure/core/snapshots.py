"""When a whole state is written beside the log, and which of the older ones stay.

The newest snapshot rolls: it is replaced once the changes after it weigh a seventh of the state, so that restoring the
newest state folds little. Where packing leaves less than half of it, the one before it stays until the next: who lists
the newest checkpoints begins there.

Every now and then one stays as a landmark: when the changes since the landmark before it weigh twice the state. Where
dropped snapshots stay on the disk for a while, they roll more rarely: once the changes weigh clearly more than the
state, which those of a conversation that only grows never do, or once there are so many of them that folding them one
by one takes longer than reading the state. So restoring any old version reads no more than about three times the state,
and all landmarks together weigh less than half the log. Changes weigh what they have unpacked: that is what folding
them takes.
"""

from __future__ import annotations

SMALLEST = 16 * 1024  # below this, folding the changes is as quick as reading a whole state
_ROLLS_AT = 0.15  # the share of the state that the changes after the newest snapshot may weigh
_RARELY = 1.25  # … where a snapshot that was dropped takes room until somebody cleans up
_MANY, _OF_MANY = 600, 0.4  # so many changes may weigh less there


def is_due(since: int, size: int, count: int = 0, *, reuses_room: bool = True) -> bool:
    """Whether the `count` changes since the newest snapshot weigh enough for a new one of a state of this size."""
    share = _ROLLS_AT if reuses_room else _OF_MANY if count >= _MANY else _RARELY
    return since > SMALLEST and since > size * share


def is_landmark(apart: int, size: int) -> bool:
    """Whether a new snapshot stays: `apart` is the weight of the changes since the landmark before it."""
    return apart > 2 * size
