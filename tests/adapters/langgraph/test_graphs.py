"""Real graphs: whatever happens to one on a saver is what happens to it on LangGraph's own in memory."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from perdure.storage.drive import drive
from perdure.testing.langgraph.serdes import Stream
from tests.adapters.langgraph.hands import Account, Hand, account
from tests.adapters.langgraph.savers import EXAMINES_ALL, SAVERS, THEIRS, Kind
from tests.adapters.langgraph.scenes import SCENES, Scene

# Both faces of theirs are in the asynchronous kinds: these have a synchronous sibling.
KINDS = [
    name
    for name in SAVERS
    if name not in ("InMemorySaver", "SqliteSaver", "PostgresSaver")
    and (EXAMINES_ALL or name != "AsyncPostgresSaver")  # one of theirs is enough to see that a scene is fair
]
# A beta of their own: using it warns.
pytestmark = pytest.mark.filterwarnings("ignore:.*beta.*")


async def played(scene: Scene, saver: Any, *, sync: bool) -> list[Any]:
    """What was told while it was played, and the account of the thread."""
    hand = Hand(scene.build(saver), sync=sync)
    told = Account().of(await scene.play(hand))
    return [told, await account(hand)]


async def played_later(scene: Scene, kind: Kind, **options: Any) -> list[Any]:
    """Played, and the account again from the database opened anew."""
    database = kind.make()
    try:
        async with database.open(**options) as saver:
            story = await played(scene, saver, sync=False)
        async with database.open(**options) as saver:
            return [*story, await account(Hand(scene.build(saver), sync=False))]
    finally:
        database.clear()


_IN_MEMORY: dict[tuple[str, str], list[Any]] = {}  # what was played once is what all others are compared with


async def in_memory(scene: str) -> list[Any]:
    if (scene, "async") not in _IN_MEMORY:
        _IN_MEMORY[scene, "async"] = await played_later(SCENES[scene], THEIRS["InMemorySaver"])
    return _IN_MEMORY[scene, "async"]


def in_memory_without_a_loop(scene: str) -> list[Any]:
    if (scene, "sync") not in _IN_MEMORY:
        with THEIRS["InMemorySaver"].opened() as saver:
            _IN_MEMORY[scene, "sync"] = drive(played(SCENES[scene], saver, sync=True))
    return _IN_MEMORY[scene, "sync"]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", KINDS)
async def test_a_graph_goes_as_in_memory(name: str, scene: str) -> None:
    expected = await in_memory(scene)
    assert await played_later(SCENES[scene], SAVERS[name]) == expected


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", KINDS)
def test_a_graph_goes_as_in_memory_without_a_loop(name: str, scene: str) -> None:
    expected = in_memory_without_a_loop(scene)
    with SAVERS[name].opened() as saver:
        assert drive(played(SCENES[scene], saver, sync=True)) == expected


@pytest.mark.parametrize(
    "scene", ["an agent with tools", "interrupt and resume", "subgraphs", "time travel", "fan-out"]
)
@pytest.mark.parametrize("name", [name for name in KINDS if "sqlite" in name.lower()])
async def test_a_graph_goes_as_in_memory_when_its_values_are_encrypted(name: str, scene: str) -> None:
    expected = await in_memory(scene)
    encrypted = await played_later(SCENES[scene], SAVERS[name], serde=EncryptedSerializer(Stream()))
    assert encrypted == expected
