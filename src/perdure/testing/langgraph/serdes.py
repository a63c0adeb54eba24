"""A serializer that a user gives: every value goes through it, and nothing readable of them is stored."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from perdure.testing.langgraph.bench import Bench, Face, NotOffered
from perdure.testing.langgraph.examining import group
from perdure.testing.langgraph.making import at, chain, put, values_at

TEXT = "a secret of the user that nobody may read 7f3a"
# Incompressible: text could hide from the search by being squeezed.
NOISE = hashlib.sha512(b"noise").digest()


@dataclass
class Late:
    """A type that a saver learns of only by its allow-list."""

    x: int


class Stream:
    """A cipher for tests only: a key stream from digests, and a seal."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "stream", hashlib.sha256(plaintext).digest() + _mixed(plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        plaintext = _mixed(ciphertext[32:])
        if ciphername != "stream" or hashlib.sha256(plaintext).digest() != ciphertext[:32]:
            raise ValueError("not encrypted by this cipher")
        return plaintext


def _mixed(given: bytes) -> bytes:
    stream = b"".join(hashlib.sha256(n.to_bytes(8, "big")).digest() for n in range(len(given) // 32 + 1))
    return bytes(one ^ two for one, two in zip(given, stream, strict=False))


class Counting:
    """LangGraph's serializer, seen from outside: every value is marked with its own type."""

    def __init__(self) -> None:
        self.inner, self.calls = JsonPlusSerializer(), Counter[str]()

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        self.calls["dumps"] += 1
        type_, data = self.inner.dumps_typed(obj)
        return f"counted-{type_}", data[::-1]

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.calls["loads"] += 1
        assert data[0].startswith("counted-"), f"asked to load {data[0]}, which this serializer never gave"
        return self.inner.loads_typed((data[0].removeprefix("counted-"), bytes(data[1])[::-1]))


async def values_go_through_it(bench: Bench) -> None:
    serde, database = Counting(), bench.empty()
    async with bench.saver(database, serde=serde) as saver:
        saved = await chain(saver, "t", {"a": ["one"]}, {"a": ["one", "two"], "b": ["x", 1]})
        await saver.put_writes(saved[-1], [("a", {"x"})], "task", "~p")
        assert serde.calls["dumps"] >= 3, f"{serde.calls['dumps']} calls for 3 values and a write"
    again = Counting()
    async with bench.saver(database, serde=again) as saver:
        found = await saver.get(at("t"))
    values = found.checkpoint["channel_values"]
    assert values == {"a": ["one", "two"], "b": ["x", 1]}, f"{values}"
    assert found.pending_writes == [("task", "a", {"x"})], f"{found.pending_writes}"
    assert again.calls["loads"] >= 2, f"{again.calls['loads']} calls to read 2 values and a write"


async def nothing_readable_is_stored(bench: Bench) -> None:
    database = bench.empty()
    if database.stored is None:
        raise NotOffered("nothing is at rest")
    async with bench.saver(database, serde=EncryptedSerializer(Stream())) as saver:
        saved = await chain(saver, "t", {"a": [TEXT]}, {"a": [TEXT, NOISE], "b": {"deep": NOISE}, "short": TEXT})
        await saver.put_writes(saved[-1], [("a", TEXT), ("b", NOISE)], "task", "~p")
    stored = database.stored()
    assert b"thread_id" in stored or len(stored) > 500, "what is stored could not be read at all"
    assert TEXT.encode() not in stored, "a text is stored readable"
    assert NOISE not in stored, "bytes are stored as they are"


async def encrypted_values_come_back(bench: Bench) -> None:
    database, state = bench.empty(), {"a": [TEXT, NOISE], "n": 1, "deep": {"x": [None, 1.5]}}
    async with bench.saver(database, serde=EncryptedSerializer(Stream())) as saver:
        saved = await put(saver, at("t"), state)
        await saver.put_writes(saved, [("a", [TEXT])], "task", "~p")
    async with bench.saver(database, serde=EncryptedSerializer(Stream())) as saver:
        found, history = await saver.get(at("t")), await saver.list(at("t"))
    assert found.checkpoint["channel_values"] == state, f"{found.checkpoint['channel_values']}"
    assert found.pending_writes == [("task", "a", [TEXT])], f"{found.pending_writes}"
    assert len(history) == 1, f"{len(history)} listed"


async def without_the_key_nothing_is_read(bench: Bench) -> None:
    database = bench.empty()
    async with bench.saver(database, serde=EncryptedSerializer(Stream())) as saver:
        await put(saver, at("t"), {"a": TEXT})
    async with bench.saver(database) as saver:
        if saver.saver.serde.__class__ is EncryptedSerializer:
            raise NotOffered("nothing is kept when it is closed")
        try:
            found = await saver.get(at("t"))
        except Exception:
            return
    assert found is None or found.checkpoint["channel_values"].get("a") != TEXT, "the value was read without its key"


async def the_allow_list_survives_a_copy(bench: Bench) -> None:
    async with bench.saver() as saver:
        allowed = saver.saver.with_allowlist([(Late.__module__, Late.__name__)])
        for each in (allowed, copy.copy(allowed), copy.copy(copy.copy(allowed))):
            face = Face(each, saver.name)
            found = (await values_at(face, await put(face, at(bench.thread()), {"a": Late(1)})))["a"]
            assert (type(found), found) == (Late, Late(1)), f"came back as {found!r}"


async def an_allowed_clone_is_on_the_same_data(bench: Bench) -> None:
    async with bench.saver() as saver:
        clone = Face(saver.saver.with_allowlist([(Late.__module__, Late.__name__)]), saver.name)
        one, two = bench.thread(), bench.thread()
        by_clone, by_saver = await put(clone, at(one), {"a": 1}), await put(saver, at(two), {"a": 2})
        found = [await values_at(saver, by_clone), await values_at(clone, by_saver)]
    assert found == [{"a": 1}, {"a": 2}], f"{found}"


CHECKS = (
    *group(
        "a serializer of the user's", values_go_through_it, nothing_readable_is_stored, encrypted_values_come_back,
        without_the_key_nothing_is_read,
    ),
    *group("allow-list", the_allow_list_survives_a_copy, an_allowed_clone_is_on_the_same_data),
)  # fmt: skip
