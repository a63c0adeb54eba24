"""Ids that want to be something else: a thread of their own, or refused."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from perdure.core.errors import InvalidIdError
from tests.faults.places import BACKENDS, url_of

pytestmark = pytest.mark.parametrize("backend", BACKENDS)
KEPT = [
    "../../x", "../x", "/etc/passwd", "..", ".", "x", "X", "x ", " x", "x/", "x\\", "%2e%2e", "x\n", "con", "x" * 512,
    "ß", "SS", "ẞ", unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), "🧊" * 512,
    "'; DROP TABLE perdure_thread; --", "\u202e", "\ufeff", "\x7f", "\x01", "@12", "a@-1", "None", "0",
]  # fmt: skip
REFUSED: list[Any] = ["", "\0", "a\0b", "x" * 513, "x" * 600, "\ud800", "a\udfff", None, 7, b"x", ("x",), 1.5, True]


class Name(str):
    """A str that is more."""


def test_every_id_is_a_thread_of_its_own(backend: str, tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "c"
    place.mkdir(parents=True)
    with sync.Perdure.open(url_of(backend, place)) as store:
        for number, name in enumerate(KEPT):
            store.thread(name).append("n", number)
            store.thread("shared", user=name).append("n", -number)
        assert [store.thread(name).load() for name in KEPT] == [{"n": [n]} for n in range(len(KEPT))]
        assert [store.thread("shared", user=name).load() for name in KEPT] == [{"n": [-n]} for n in range(len(KEPT))]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["c"]


@pytest.mark.parametrize("bad", [*REFUSED, Name("x")], ids=repr)
def test_what_cannot_be_an_id_is_refused_everywhere(backend: str, bad: Any, tmp_path: Path) -> None:
    with sync.Perdure.open(url_of(backend, tmp_path)) as store:
        thread = store.thread("t")
        thread.append("n", 1)
        with pytest.raises(InvalidIdError):
            store.thread(bad)
        with pytest.raises(InvalidIdError):
            thread.fork(to=bad)
        if bad not in (None, ""):  # these name the thread that belongs to nobody
            with pytest.raises(InvalidIdError):
                store.thread("t", user=bad)
        if bad is not None:
            with pytest.raises(InvalidIdError):
                thread.append("n", 2, key=bad)
        assert thread.load() == {"n": [1]}


def test_keys_of_any_text_are_kept_apart(backend: str, tmp_path: Path) -> None:
    with sync.Perdure.open(url_of(backend, tmp_path)) as store:
        thread = store.thread("t")
        versions = [thread.append("n", n, key=name) for n, name in enumerate(KEPT)]
        assert versions == list(range(1, len(KEPT) + 1))
        assert [thread.append("n", n, key=name) for n, name in enumerate(KEPT)] == versions
