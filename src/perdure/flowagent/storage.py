"""What a place for checkpoints has to do: three methods, and two more for those who want to delete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from perdure.core.checkpoint import Checkpoint
from perdure.core.errors import InvalidInputError, StorageMethodMissingError
from perdure.core.ports import Clock
from perdure.flowagent.binding import Base


class CheckpointStorage(ABC):
    """A place for checkpoints: subclass it, with `Checkpoint.to_dict` and `from_dict` for what you store."""

    clock: Clock | None = None  # tells a manager the time; the system's where there is none

    @abstractmethod
    async def save(self, checkpoint: Checkpoint) -> str:
        """Keep a checkpoint, and return the id it has from now on."""

    @abstractmethod
    async def load(self, checkpoint_id: str) -> Checkpoint | None:
        """The checkpoint of this id, None when there is none."""

    async def load_of(self, checkpoint_id: str, user_id: str) -> Checkpoint | None:
        """The checkpoint of this id if it is one of exactly this user, else None."""
        found = await self.load(checkpoint_id)
        if found is None:
            return None
        point = as_checkpoint(found)
        return point if point.user_id == user_id else None

    @abstractmethod
    async def list_by_user(self, user_id: str, limit: int = 50, offset: int = 0) -> Sequence[Any]:
        """Checkpoints of exactly this user, newest first; the dicts of `Checkpoint.to_dict` will do."""

    async def delete_by_user(self, user_id: str) -> int:
        """Delete all checkpoints of a user, and return how many."""
        raise StorageMethodMissingError(type(self).__name__, "async def delete_by_user(self, user_id: str) -> int")

    async def delete_older_than(self, moment: datetime) -> int:
        """Delete the checkpoints of all users that are older than `moment`, and return how many."""
        wanted = "async def delete_older_than(self, moment: datetime) -> int"
        raise StorageMethodMissingError(type(self).__name__, wanted)

    async def keep(self, draft: Checkpoint, base: Base | None) -> Checkpoint:
        """Save what an agent is, which builds on `base`, and return it as it stands. A storage may choose the id."""
        given = await self.save(draft)
        return msgspec.structs.replace(draft, id=given) if given else draft


def as_checkpoint(found: Any) -> Checkpoint:
    """What a storage answered, as a checkpoint."""
    if isinstance(found, Checkpoint | Mapping):
        return found if isinstance(found, Checkpoint) else Checkpoint.from_dict(found)
    try:
        return Checkpoint.from_dict(dict(found))  # the row of a database
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(f"a storage must answer with a Checkpoint or the dict of one, not {found!r}") from exc
