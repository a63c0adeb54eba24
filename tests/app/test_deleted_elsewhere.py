"""A handle whose thread another process deleted: what it is told does not depend on who else looked meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.errors import NotFoundError, VersionConflictError
from perdure.sync import Perdure, Thread

Act = Callable[[Thread], object]
WRITES: dict[str, Act] = {
    "save": lambda thread: thread.save({"n": 9}),
    "update": lambda thread: thread.update(set={"n": 9}),
    "append": lambda thread: thread.append("list", 1),
    "say": lambda thread: thread.add_messages("hi"),
    "rename": lambda thread: thread.rename("other"),
    "rewind": lambda thread: thread.rewind("@1"),
}
LOOKS: dict[str, Act] = {
    "nobody": lambda thread: None,
    "a reader": lambda thread: thread.load(default=None),
    "a reader of messages": lambda thread: thread.messages(),
}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Perdure, Perdure]]:
    url = f"sqlite:///{tmp_path / 'place.db'}"
    with Perdure.open(url) as ours, Perdure.open(url) as theirs:
        yield ours, theirs


def seen(store: Perdure) -> Thread:
    thread = store.thread("t")
    thread.save({"n": 1, "list": []})
    thread.save({"n": 2, "list": []})
    return thread


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("write", WRITES)
def test_who_has_seen_a_thread_is_told_that_it_was_deleted(
    stores: tuple[Perdure, Perdure], write: str, look: str
) -> None:
    thread = seen(stores[0])
    stores[1].thread("t").delete()
    LOOKS[look](stores[0].thread("t"))
    with pytest.raises(NotFoundError):
        WRITES[write](thread)
    assert stores[1].threads() == []


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("write", [name for name in WRITES if name != "append"])
def test_a_thread_made_again_is_another_one(stores: tuple[Perdure, Perdure], write: str, look: str) -> None:
    thread = seen(stores[0])
    stores[1].thread("t").delete()
    seen(stores[1])
    LOOKS[look](stores[0].thread("t"))
    with pytest.raises(VersionConflictError, match="deleted and made again"):
        WRITES[write](thread)
    assert stores[1].thread("t").load() == {"n": 2, "list": []}


@pytest.mark.parametrize("look", LOOKS)
def test_who_expects_nothing_makes_it_again_and_goes_on(stores: tuple[Perdure, Perdure], look: str) -> None:
    thread = seen(stores[0])
    with pytest.raises(VersionConflictError):
        thread.save({"n": 3}, expected=0)
    stores[1].thread("t").delete()
    LOOKS[look](stores[0].thread("t"))
    thread.save({"n": 3}, expected=0)
    thread.save({"n": 4})
    thread.update(set={"n": 5})
    assert stores[1].thread("t").load() == {"n": 5}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("again", [False, True])
def test_a_thread_of_messages_alone_was_seen_too(stores: tuple[Perdure, Perdure], look: str, again: bool) -> None:
    thread = stores[0].thread("t")
    thread.add_messages("hi")
    assert thread.load(default=None) is None
    stores[1].thread("t").delete()
    if again:
        stores[1].thread("t").add_messages("another")
    LOOKS[look](stores[0].thread("t"))
    with pytest.raises(VersionConflictError if again else NotFoundError):
        thread.save({"n": 1})
    assert stores[1].thread("t").load(default=None) is None
