"""Finding the class of a stored agent among those this process knows: nothing is imported because of stored data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perdure.core.checkpoint import Checkpoint
from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.flowagent.agent import StandardAgent
from perdure.flowagent.capture import path_of


def class_of(point: Checkpoint) -> type[StandardAgent]:
    """The class that a checkpoint names; of several with its very path the one that was defined last.

    Raises `NotFoundError` when there is none of this name, `InvalidInputError` when it could be any of several.
    """
    found = [cls for cls in _known(StandardAgent) if cls.__name__ == point.agent_type]
    same = [cls for cls in found if path_of(cls) == point.agent_class] or found
    if not same:
        raise NotFoundError(
            f"a subclass of StandardAgent called {point.agent_type!r}",
            f"import the module that defines it before you restore {point.id}, "
            f"or say CheckpointManager(storage, factories={{{point.agent_type!r}: …}})",
        )
    if len(paths := sorted(set(map(path_of, same)))) > 1:
        raise InvalidInputError(
            f"several agents are called {point.agent_type!r} ({', '.join(paths)}), and {point.id} was saved by none of "
            f"them; say CheckpointManager(storage, factories={{{point.agent_type!r}: …}})"
        )
    return same[-1]


def _known(cls: type[StandardAgent]) -> Iterator[type[StandardAgent]]:
    yield cls
    yield from _each(cls.__subclasses__())


def _each(classes: Iterable[type[StandardAgent]]) -> Iterator[type[StandardAgent]]:
    for cls in classes:
        yield from _known(cls)
