"""CheckpointTree: the checkpoints of an agent as a tree, by their parents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure.core.checkpoint import Checkpoint
from perdure.core.errors import NotFoundError


class CheckpointTree:
    """Checkpoints with their parents and children: `await manager.tree(user_id)` makes one.

    A checkpoint whose parent is not among them, because it was pruned for example, is a root. `str` draws the tree.
    """

    def __init__(self, checkpoints: Iterable[Checkpoint]) -> None:
        ordered = sorted(checkpoints, key=lambda each: (each.timestamp, each.id))
        self._by_id = {each.id: each for each in ordered}
        self._children: dict[str | None, list[Checkpoint]] = {}
        for each in ordered:
            self._children.setdefault(self._parent_id(each), []).append(each)

    def _parent_id(self, point: Checkpoint) -> str | None:
        parent = point.parent_checkpoint_id
        return parent if parent in self._by_id and parent != point.id else None

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self._by_id.values())

    def __contains__(self, checkpoint_id: object) -> bool:
        return checkpoint_id in self._by_id

    def __getitem__(self, checkpoint_id: str) -> Checkpoint:
        if checkpoint_id not in self._by_id:
            raise NotFoundError(f"checkpoint {checkpoint_id!r} in this tree", "list_by_user shows those of a user")
        return self._by_id[checkpoint_id]

    @property
    def roots(self) -> list[Checkpoint]:
        """The checkpoints without a parent, oldest first."""
        return list(self._children.get(None, ()))

    def parent(self, checkpoint_id: str) -> Checkpoint | None:
        """The checkpoint that one was saved after, None for a root."""
        parent = self._parent_id(self[checkpoint_id])
        return None if parent is None else self._by_id[parent]

    def children(self, checkpoint_id: str) -> list[Checkpoint]:
        """The checkpoints that were saved after one, oldest first."""
        return list(self._children.get(self[checkpoint_id].id, ()))

    def path_to_root(self, checkpoint_id: str) -> list[Checkpoint]:
        """A checkpoint, its parent, and so on up to a root."""
        path = [self[checkpoint_id]]
        while (parent := self.parent(path[-1].id)) is not None and len(path) <= len(self._by_id):
            path.append(parent)
        return path

    def depth(self, checkpoint_id: str | None = None) -> int:
        """How many checkpoints are above one; without an id, how many the longest path has."""
        if checkpoint_id is not None:
            return len(self.path_to_root(checkpoint_id)) - 1
        return max((len(self.path_to_root(each.id)) for each in self.leaves()), default=0)

    def leaves(self) -> list[Checkpoint]:
        """The checkpoints without children, oldest first: the ends of the branches."""
        return [each for each in self if each.id not in self._children]

    def branches(self) -> list[list[Checkpoint]]:
        """Each path from a root to a leaf, in the order of the leaves."""
        return [self.path_to_root(each.id)[::-1] for each in self.leaves()]

    def branch_points(self) -> list[Checkpoint]:
        """The checkpoints with more than one child."""
        return [each for each in self if len(self._children.get(each.id, ())) > 1]

    def __str__(self) -> str:
        return "\n".join(line for root in self.roots for line in self._lines(root))

    def _lines(self, root: Checkpoint) -> Iterator[str]:
        waiting = [(root, 0)]
        while waiting:
            point, depth = waiting.pop()
            label = point.metadata.get("branch")
            yield f"{'  ' * depth}{point.id} {point.status}{f' [{label}]' if label else ''}"
            children = self._children.get(point.id, [])
            # A chain stays in its column; only branches are indented.
            inner = depth + (len(children) > 1)
            waiting += [(each, inner) for each in reversed(children)]
