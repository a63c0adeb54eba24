"""Filters of checkpoint lists: exact values, any key, no surprises."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract
from perdure.testing.scribe import BOBS, OTHER, THREAD, Scribe

HOSTILE_KEYS = [
    "a'; DROP TABLE checkpoint--",
    "$.x",
    "$",
    "a.b.c",
    'say "hi"',
    "back\\slash",
    "schlüssel 漢字 \U0001f511",
    "with space ",
    "",
    "[0]",
    "%",
    "?1",
    "null",
]
ALIKE: list[Any] = [
    1,
    True,
    1.0,
    "1",
    [1],
    (1,),
    b"1",
    None,
    0,
    False,
    "",
    1 << 70,
    datetime(2026, 1, 1, tzinfo=UTC),
    {"a": 1},
]


class FilterContract(Contract):
    """Which checkpoints a query chooses."""

    @pytest.mark.parametrize("field", ["kind", "status", "agent"])
    async def test_a_field_is_matched_exactly(self, storage: Storage, scribe: Scribe, field: str) -> None:
        made = [await scribe.save(THREAD, **{field: value}) for value in ("a", "A", "a ", "b", "a")]
        assert await listed(storage, **{field: "a"}) == [made[4], made[0]]
        assert await listed(storage, **{field: "x' OR '1'='1"}) == []

    async def test_no_condition_means_all(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(status=status, agent=status) for status in ("a", None)]
        assert await listed(storage) == made[::-1]
        assert await listed(storage, metadata={}) == made[::-1]

    async def test_a_window_of_time_includes_its_start_and_not_its_end(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save() for _ in range(5)]
        found = await listed(storage, since=made[1].micros, until=made[3].micros)
        assert found == [made[2], made[1]]
        assert await listed(storage, since=made[4].micros) == [made[4]]
        assert await listed(storage, until=made[0].micros) == []

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    async def test_any_text_is_a_metadata_key(self, storage: Storage, scribe: Scribe, key: str) -> None:
        wanted = await scribe.save(metadata={key: "v", "other": 1})
        await scribe.save(metadata={key + "x": "v"})
        await scribe.save(metadata={key: "w"})
        assert await listed(storage, metadata={key: "v"}) == [wanted]

    async def test_a_dotted_key_is_not_a_path(self, storage: Storage, scribe: Scribe) -> None:
        nested = await scribe.save(metadata={"a": {"b": 1}})
        flat = await scribe.save(metadata={"a.b": 1})
        assert await listed(storage, metadata={"a.b": 1}) == [flat]
        assert await listed(storage, metadata={"a": {"b": 1}}) == [nested]

    async def test_values_are_matched_with_their_exact_type(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(metadata={"k": value}) for value in ALIKE]
        for value, row in zip(ALIKE, made, strict=True):
            assert await listed(storage, metadata={"k": value}) == [row]

    async def test_a_missing_key_is_not_none(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.save(metadata={})
        none = await scribe.save(metadata={"k": None})
        assert await listed(storage, metadata={"k": None}) == [none]

    async def test_a_hostile_value_is_only_a_value(self, storage: Storage, scribe: Scribe) -> None:
        value = "x' OR 1=1; DROP TABLE checkpoint--"
        await scribe.save(metadata={"k": "x"})
        wanted = await scribe.save(metadata={"k": value})
        assert await listed(storage, metadata={"k": value}) == [wanted]

    async def test_all_conditions_have_to_hold(self, storage: Storage, scribe: Scribe) -> None:
        wanted = await scribe.save(kind="a", status="ok", metadata={"x": 1, "y": 2})
        await scribe.save(kind="a", status="bad", metadata={"x": 1, "y": 2})
        await scribe.save(kind="b", status="ok", metadata={"x": 1, "y": 2})
        await scribe.save(kind="a", status="ok", metadata={"x": 1, "y": 3})
        assert await listed(storage, kind="a", status="ok", metadata={"x": 1, "y": 2}) == [wanted]

    async def test_a_limit_counts_what_matches(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(kind=kind, metadata={"k": kind}) for kind in "aababb"]
        wanted = [made[3], made[1]]
        assert await listed(storage, kind="a", limit=2) == wanted
        assert await listed(storage, metadata={"k": "a"}, limit=2) == wanted

    async def test_a_filtered_list_is_paged_without_gaps(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(kind="ab"[n % 2], metadata={"k": n % 2}) for n in range(8)]
        for chosen in ({"kind": "a"}, {"metadata": {"k": 0}}):
            first = await listed(storage, **chosen, limit=3)
            rest = await listed(storage, **chosen, limit=3, before=first[-1].mark.id)
            assert first + rest == made[6::-2]

    async def test_filters_reach_through_forks(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(kind=kind, metadata={"k": kind}) for kind in "abab"]
        await scribe.fork(THREAD, 3, OTHER)
        own = await scribe.save(OTHER, kind="a", metadata={"k": "a"})
        for query in (CheckpointQuery(kind="a"), CheckpointQuery(metadata={"k": "a"})):
            found = await storage.checkpoints(OTHER, query)
            assert [row.mark.id for row in found] == [own.mark.id, made[2].mark.id, made[0].mark.id]

    async def test_lists_of_a_user_know_every_filter(self, storage: Storage, scribe: Scribe) -> None:
        wanted = await scribe.save(THREAD, kind="a", status="s", agent="g", metadata={"$.x": 1})
        await scribe.save(OTHER, kind="b")
        await scribe.save(BOBS, kind="a", status="s", agent="g", metadata={"$.x": 1})
        filters: list[dict[str, Any]] = [{"kind": "a"}, {"status": "s"}, {"agent": "g"}, {"metadata": {"$.x": 1}}]
        filters.append({"until": wanted.micros + 1})
        for chosen in filters:
            assert await storage.user_checkpoints("", "alice", CheckpointQuery(**chosen)) == [wanted]


async def listed(storage: Storage, **query: Any) -> list[Any]:
    """What a query of the thread gives."""
    return await storage.checkpoints(THREAD, CheckpointQuery(**query))
