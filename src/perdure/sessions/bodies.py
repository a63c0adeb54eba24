"""What entries say, with the large values that are kept apart put back."""

from __future__ import annotations

from perdure.core import blobs
from perdure.core.entries import Entry
from perdure.core.fold import Step, change_of, with_bodies
from perdure.core.identity import ThreadKey
from perdure.core.ops import Ops
from perdure.core.payload import WholeState
from perdure.core.pruning import is_blank
from perdure.storage.contract import Storage


class Bodies:
    """Reads changes and puts large values back."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def change(self, key: ThreadKey, entry: Entry) -> Ops | None:
        """The change of an entry; None for one that was pruned."""
        if is_blank(entry):
            return None
        step = await self.whole(key, change_of(key.id, entry))
        return () if isinstance(step, WholeState) else step.ops

    async def whole(self, key: ThreadKey, step: Step) -> Step:
        """The step with its large values put back."""
        if not step.blobs:
            return step
        found = await self._storage.blobs(key, step.blobs)
        return with_bodies(step, {digest: blobs.checked(digest, payload) for digest, payload in found.items()})
