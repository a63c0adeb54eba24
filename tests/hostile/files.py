"""Values and files that nobody of ours wrote: decoded and imported by a store, or refused with a type of ours."""

from __future__ import annotations

import io
import pickle
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from perdure.core.codec import decode
from tests.checkpoints.places import PLACES
from tests.hostile.canary import Canary
from tests.hostile.catalogue import CANARY, CODE, Hostile, register
from tests.hostile.judge import Judge
from tests.hostile.scene import SHARED, Scene, playing
from tests.hostile.trials import TRIALS, Trial


class _Reduced:
    """Unpickled, it imports the canary."""

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, (CANARY,)


_PICKLES = [pickle.dumps(_Reduced(), protocol) for protocol in range(6)]


def _ext(code: int, data: bytes) -> bytes:
    return b"\xc8" + len(data).to_bytes(2, "big") + code.to_bytes(1, "big", signed=True) + data


VALUES: dict[str, bytes] = {
    **{f"pickle {at}": each for at, each in enumerate(_PICKLES)}, "nothing": b"", "reserved": b"\xc1",
    "two values": b"\xc0\xc0",
    "cut text": b"\xa5ab", "no UTF-8": b"\xa2\xff\xfe", "a surrogate": b"\xa3\xed\xa0\x80",
    "a huge text": b"\xdb\xff\xff\xff\xff",
    "a huge list": b"\xdd\xff\xff\xff\xff", "a huge dict": b"\xdf\xff\xff\xff\xff",
    "huge bytes": b"\xc6\xff\xff\xff\xff",
    "deep lists": b"\x91" * 200_000 + b"\xc0", "deep dicts": b"\x81\xa1a" * 100_000 + b"\xc0",
    "a key that is a list": b"\x81\x91\xc0\xc0",
    "a key twice": b"\x82\xa1a\x01\xa1a\x02", "a cut extension": b"\xc7\xff\x01",
    "not a number for a key": b"\x81\xcb\x7f\xf8" + bytes(6) + b"\xc0",
    **{f"extension {code} of {name}": _ext(code, data) for code in (*range(-3, 12), 40, 127) for name, data in {
        "a pickle": _PICKLES[4], "a deep list": b"\x91" * 5000, "code": msgspec.msgpack.encode([CANARY, CODE]),
    }.items()},
}  # fmt: skip


def _zip(name: str, data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(f"../../{CANARY}")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    return out.getvalue()


def _database(folder: Path) -> bytes:
    with closing(sqlite3.connect(folder / "made.db")) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
    return (folder / "made.db").read_bytes()


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda whole: b"\n".join(change(whole.split(b"\n")))


# What an export is made into; the data may be anything between its first line and its last byte.
FILES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"", "a newline": lambda whole: b"\n", "zeros": lambda whole: bytes(10_000),
    "a pickle": lambda whole: _PICKLES[4],
    "a pickle after the first line": lambda whole: whole.split(b"\n")[0] + b"\n" + _PICKLES[2],
    "JSON": lambda whole: b"{}",
    "deep JSON": lambda whole: b"[" * 200_000, "deep JSON in an object": lambda whole: b'{"a":' * 100_000,
    "a huge int": lambda whole: b'{"perdure": ' + b"9" * 100_000 + b"}",
    "a zip": lambda whole: _zip("../../x", b"x" * 1000), "a tar": lambda whole: _tar(),
    "zlib": lambda whole: zlib.compress(bytes(10 << 20)),
    "cut by one": lambda whole: whole[:-1], "half": lambda whole: whole[: len(whole) // 2],
    "the first line": lambda whole: whole.split(b"\n")[0],
    "one more": lambda whole: whole + b"\0", "twice": lambda whole: whole * 2, "backwards": lambda whole: whole[::-1],
    "lines backwards": _lines(lambda lines: lines[::-1]), "lines twice": _lines(lambda lines: lines * 2),
    "without the first line": _lines(lambda lines: lines[1:]),
    "without the last line": _lines(lambda lines: lines[:-1]),
    "a byte order mark": lambda whole: b"\xef\xbb\xbf" + whole,
    "UTF-16": lambda whole: whole.decode("latin-1").encode("utf-16"),
    "Windows lines": lambda whole: whole.replace(b"\n", b"\r\n"),
    "mallory is alice": lambda whole: whole.replace(b"mallory", b"alice"),
    "another id": lambda whole: whole.replace(b"shared", b"sharee"),
    **{f"a bit at {part}/16": lambda whole, part=part: _flipped(whole, len(whole) * part // 16) for part in range(16)},
}  # fmt: skip


def _flipped(whole: bytes, at: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]


register("deserialisation", VALUES)
register("imports", FILES)


async def _decode(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    for each in chosen:

        async def work(data: bytes = each.value) -> object:
            return decode(data)

        await judge.call(str(each), work)


async def _import(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    (folder / "imports").mkdir()
    async with playing(PLACES[kind](folder / "imports"), "async", folder, canary) as scene:
        await scene.mallory.export(SHARED, folder / "whole.perdure")
        whole = (folder / "whole.perdure").read_bytes()
        for each in chosen:
            await _bring(judge, scene, each, whole)
        judge.broken("imports", await scene.changed())
        await judge.call("imports: a folder", lambda: scene.mallory.import_(folder))
        await judge.call("imports: nothing", lambda: scene.mallory.import_(folder / "nowhere"))
        (folder / "database.perdure").write_bytes(_database(folder))
        await judge.call("imports: a database", lambda: scene.mallory.import_(folder / "database.perdure"))


async def _bring(judge: Judge, scene: Scene, hostile: Hostile, whole: bytes) -> None:
    file = scene.folder / "hostile.perdure"
    file.write_bytes(hostile.value(whole))
    target = scene.name("imported")
    answer = await judge.call(str(hostile), lambda: scene.mallory.import_(file, to=target))
    if not isinstance(answer, Exception) and file.read_bytes() != whole:
        # An id and an owner are given by the importer: a file that names others is still the same thread.
        state = await judge.call(f"{hostile}, load", scene.mallory.thread(target).load)
        truth = await scene.mallory.thread(SHARED).load()
        judge.broken(str(hostile), "" if state == truth else f"another state was imported: {state!r:.200}")


TRIALS.append(Trial(category="deserialisation", backends=("anywhere",), play=_decode))
TRIALS.append(Trial(category="imports", backends=("memory", "sqlite"), play=_import))
