"""A stranger's file or row takes neither memory nor time of who reads it, and ends in an error that says why."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from perdure.core.codec import decode, decode_tagged, encode
from perdure.core.document import Document
from perdure.core.errors import (
    DamagedError,
    InvalidInputError,
    PerdureError,
    UnsupportedValueError,
    ValueDamagedError,
    ValueTooLargeError,
)
from perdure.core.limits import DEFAULT_LIMITS
from perdure.core.value_scan import collide, nodes
from perdure.sync import Perdure
from tests.hostile import bombs

INTS = some.integers(-(1 << 63), (1 << 64) - 1)
READERS = [decode, decode_tagged, lambda body: Document.of(body).value()]
CEILING = 512 << 10  # KB
_CHILD = """
import sys
from pathlib import Path
from perdure.errors import PerdureError
from perdure.sync import Perdure
with Perdure.open("memory://") as store:
    try:
        store.import_(sys.argv[1], user="")
    except PerdureError as exc:
        print(type(exc).__name__, exc)
status = Path("/proc/self/status").read_text()  # ru_maxrss is that of the parent, where it had more
print(status.partition("VmHWM:")[2].split()[0])
"""


def imported(path: Path) -> tuple[str, int]:
    """What importing a file ends in, in a process of its own, and the most memory it took in KB."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, os.fspath(path)], capture_output=True, text=True, timeout=120, check=True
    )
    *said, peak = done.stdout.splitlines()
    return "\n".join(said), int(peak)


@pytest.mark.parametrize("name", bombs.LARGE)
def test_a_small_export_does_not_fill_the_memory(tmp_path: Path, name: str) -> None:
    path = bombs.forged(tmp_path / "bomb.perdure", bombs.copy_of([bombs.LARGE[name](60_000_000)]))
    assert path.stat().st_size < 1 << 20
    said, peak = imported(path)
    assert said.startswith(("ValueTooLargeError", "ExportDamagedError"))
    assert peak < CEILING


def test_an_export_that_is_a_crowd_of_empty_items(tmp_path: Path) -> None:
    said, peak = imported(bombs.crowded(tmp_path / "bomb.perdure"))
    assert said.startswith("ValueTooLargeError")
    assert "max_decoded_nodes" in said
    assert peak < CEILING


@pytest.mark.parametrize("name", ["rewinds", "entries", "threads"])
def test_a_crowd_of_items_that_are_each_small(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.perdure"
    bombs.crowd_of_threads(path) if name == "threads" else bombs.crowd_of_items(path, name)
    assert path.stat().st_size < 1 << 20
    said, peak = imported(path)
    assert said.startswith("ExportDamagedError")
    assert peak < CEILING


def test_a_list_that_is_moved_again_and_again(tmp_path: Path) -> None:
    path = bombs.forged(tmp_path / "bomb.perdure", bombs.moving(1_000_000, 150_000))
    assert path.stat().st_size < 1 << 20
    said, peak = imported(path)
    assert said.startswith("ExportDamagedError")
    assert "moves list items" in said
    assert peak < CEILING


def test_one_large_value_that_is_meant_a_thousand_times(tmp_path: Path) -> None:
    body = encode("x" * 60_000_000)
    reference = b"\xc7\x20\x15" + bombs.digest_of(body)
    path = bombs.forged(tmp_path / "bomb.perdure", bombs.copy_of([bombs.array(1000, reference)], [body]))
    said, peak = imported(path)
    assert said.startswith(("ValueTooLargeError", "ExportDamagedError"))
    assert peak < CEILING


def test_many_changes_that_are_large_only_together(tmp_path: Path) -> None:
    parts = [bombs.array(1_900_000, b"\x90") for _ in range(60)]
    first = bombs.encode_body(bombs.StateChange([bombs.Set((), bombs.Raw(b"\x90"))]))
    more = [bombs.encode_body([[[3, [], bombs.Raw(part)]], None, None, []]) for part in parts]
    said, peak = imported(bombs.forged(tmp_path / "bomb.perdure", bombs.copy_of_bodies([first, *more])))
    assert said.startswith(("ValueTooLargeError", "ExportDamagedError"))
    assert peak < CEILING


def store(**limits: int) -> Perdure:
    return Perdure.open("memory://", **limits)


@pytest.mark.parametrize(
    "state",
    [{"items": [0] * 3000}, {"items": [[]] * 3000}, {"text": "x" * (2 << 20)}],
    ids=["numbers", "lists", "text"],
)
def test_a_state_over_the_limits_is_refused_by_every_door(state: dict[str, Any]) -> None:
    with store(max_decoded_bytes=1 << 20, max_decoded_nodes=2000) as few:
        thread = few.thread("t")
        with pytest.raises(ValueTooLargeError, match="max_decoded_"):
            thread.save(state)
        thread.save({"items": [], "text": ""})
        with pytest.raises(ValueTooLargeError, match="max_decoded_"):
            thread.update(set=state)
        if "items" in state:
            with pytest.raises(ValueTooLargeError, match="max_decoded_nodes"):
                thread.append("items", *state["items"])
        assert thread.load() == {"items": [], "text": ""}
        assert few.verify().ok


def test_a_state_that_grows_is_refused_where_it_becomes_too_large() -> None:
    with store(max_decoded_nodes=2000) as few:
        thread = few.thread("t")
        thread.save({"items": []})
        for _ in range(19):
            thread.append("items", *([1] * 100))
        with pytest.raises(ValueTooLargeError):
            thread.append("items", *([1] * 100))
        assert 1800 <= len(thread.load()["items"]) <= 2000
        thread.update(set={"items": [1]})  # less is always possible
        assert few.thread("t").load() == {"items": [1]}


@pytest.mark.parametrize("url", ["sqlite:///{}/a.db", "file://{}/a"])
def test_a_store_with_lower_limits_says_how_to_raise_them(tmp_path: Path, url: str) -> None:
    address = url.format(tmp_path)
    with Perdure.open(address) as wide:
        wide.thread("t").save({"items": list(range(5000))})
        exported = wide.export("t", tmp_path / "t.perdure").path
    with Perdure.open(address, max_decoded_nodes=2000) as few:
        with pytest.raises(ValueTooLargeError, match="max_decoded_nodes"):
            few.thread("t").load()
        assert not few.verify().ok
        assert few.verify(max_decoded_nodes=10_000).ok
        assert few.repair(max_decoded_nodes=10_000).ok
        few.export("t", tmp_path / "again.perdure", max_decoded_nodes=10_000)
        with pytest.raises(ValueTooLargeError, match="max_decoded_nodes"):
            few.import_(exported, user="", to="other")
        few.import_(exported, user="", to="other", max_decoded_nodes=10_000)
    with Perdure.open(address) as wide:
        assert wide.thread("other").load() == {"items": list(range(5000))}


@pytest.mark.parametrize("given", [0, 5, -1, "1", 2.5, True, 1 << 60])
def test_limits_that_are_none(given: Any) -> None:
    for name in ("max_decoded_bytes", "max_decoded_nodes"):
        with pytest.raises(InvalidInputError, match=name):
            Perdure.open("memory://", **{name: given})


@pytest.mark.parametrize("name", bombs.COLLIDING)
def test_keys_that_collide_are_refused_at_once(name: str) -> None:
    body = bombs.COLLIDING[name]()
    start = time.process_time()
    with pytest.raises(ValueDamagedError, match=r"collide|no texts"):
        decode(body)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("keys", [bombs.colliding_ints(5000), bombs.colliding_tuples(5000)], ids=["ints", "tuples"])
def test_what_would_take_minutes_to_load_is_not_saved(keys: list[Any]) -> None:
    with store() as here:
        for state in (dict.fromkeys(keys, 0), set(keys), frozenset(keys)):
            with pytest.raises(UnsupportedValueError, match="collide"):
                here.thread("t").save({"found": state})


HONEST = {
    "ids": list(range(20_000)),
    "microseconds": [1_731_988_800_000_000 + at * 1000 for at in range(20_000)],
    "snowflakes": [(1_731_988_800_000 + at) << 22 for at in range(20_000)],
    "multiples": [at << 20 for at in range(20_000)],
    "large multiples": [at << 40 for at in range(20_000)],
    "random": [hash(str(at)) for at in range(20_000)],
    "floats": [at / 7 for at in range(20_000)],
    "prices": [Decimal(at) / 100 for at in range(20_000)],
    "pairs": [(at // 100, at % 100) for at in range(20_000)],
    "texts": [str(at) for at in range(20_000)],
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_keys_come_back(name: str) -> None:
    keys = HONEST[name]
    assert not collide(keys)
    assert not collide(keys, near=9)
    assert decode(encode(dict.fromkeys(keys, 1))) == dict.fromkeys(keys, 1)
    assert decode(encode(set(keys))) == set(keys)


@pytest.mark.parametrize("name", bombs.broken())
@pytest.mark.parametrize(
    "reads", [decode, decode_tagged, lambda body: Document.of(body).value()], ids=["", "tagged", "state"]
)
def test_bytes_that_no_codec_wrote_end_in_a_typed_error(name: str, reads: Any) -> None:
    with suppress(PerdureError):
        reads(bombs.broken()[name])


@given(some.binary(max_size=200))
@settings(max_examples=2000, deadline=None)
def test_any_bytes_are_a_value_or_a_typed_error(body: bytes) -> None:
    for reads in READERS:
        with suppress(PerdureError):
            reads(body)


@given(some.integers(1, 21), some.recursive(
    some.none() | some.booleans() | INTS | some.floats() | some.text() | some.binary(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=3), inner, max_size=4),
))  # fmt: skip
@settings(max_examples=2000, deadline=None)
def test_any_extension_is_a_value_or_a_typed_error(code: int, inside: Any) -> None:
    body = bombs.encode_body(bombs.Ext(code, bombs.encode_body(inside)))
    for reads in READERS:
        with suppress(PerdureError):
            reads(body)


@pytest.mark.parametrize("name", bombs.broken())
def test_a_broken_state_in_an_intact_log(tmp_path: Path, name: str) -> None:
    """Every digest is right: what was written is what cannot be read."""
    path = bombs.forged(tmp_path / "broken.perdure", bombs.copy_of([bombs.broken()[name] or b"\xc1"]))
    with store() as here, suppress(DamagedError, InvalidInputError):
        here.import_(path, user="")
        here.thread("bomb").load()


@given(some.recursive(
    some.none() | INTS | some.text() | some.binary(),
    lambda inner: some.lists(inner, max_size=5) | some.dictionaries(some.text(max_size=3), inner, max_size=5),
))  # fmt: skip
@settings(deadline=None)
def test_nodes_are_values_and_keys(value: Any) -> None:
    def count(each: Any) -> int:
        if isinstance(each, dict):
            return 1 + len(each) + sum(map(count, each.values()))
        return 1 + sum(map(count, each)) if isinstance(each, list) else 1

    assert nodes(encode(value), 1 << 30) == count(value)


def test_counting_stops_at_the_limit() -> None:
    body, start = bombs.array(50_000_000), time.process_time()
    with pytest.raises(ValueTooLargeError, match="max_decoded_nodes"):
        DEFAULT_LIMITS.check(body, "the state")
    assert time.process_time() - start < 3
