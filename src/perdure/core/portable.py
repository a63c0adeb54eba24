"""An export as bytes: a readable first line, blocks that are checked one by one, and a digest over everything.

    perdure-export 1 {"release":"0.1.0","threads":[…],…}      padded with spaces, ended by a line feed
    stored size (4) ‖ plain size (4) ‖ stored bytes ‖ digest (32)      a block, and so on
    0 (4) ‖ 0 (4) ‖ signature (32) ‖ digest (32)                       the end; nothing comes after it

Numbers are big-endian. A block is zstd, or as it is where its two sizes are equal. Its digest is SHA-256 of the digest
before it (32 zero bytes at first), its sizes and its stored bytes; that of the end has the first line in their place,
and then the signature. That is there if the first line names a `key`: HMAC-SHA256 of what the digest of the end would
be without it (`core.export_keys`). Whoever has no key reads the file all the same.
The blocks together are a stream of records, each with its length (4) before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Protocol

import msgspec

from perdure.core.compression import pack, zstd
from perdure.core.digest import GENESIS
from perdure.core.envelope import MAX_BODY
from perdure.core.export_keys import MAC_BYTES, is_key_id, is_signed, signature

FORMAT = 1
MAGIC = b"perdure-export "
BLOCK = 1 << 20  # plain bytes of a block
MAX_LINE = 16 << 20  # of the first line
MAX_RECORD = MAX_BODY + BLOCK
_FREE = 64 << 20  # plain bytes that no stored ones have to stand for
_RATIO = 100  # plain bytes that each stored one may stand for beyond that
_FREE_ITEMS = 100_000  # items of lists that no stored bytes have to stand for
_FREE_MOVES = 5_000  # changes that move the items of a list, which may be long
_BYTES_AN_ITEM = 8  # stored bytes for each one beyond that; an entry has 72 that cannot be packed
_SIZES = struct.Struct(">II")
_LENGTH = struct.Struct(">I")


class NotAnExport(Exception):
    """Bytes that are not an export as it was written; callers name the file."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place} {reason}")
        self.place = place
        self.reason = reason


class FormatTooNew(Exception):
    """An export of a format that a later release writes."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as the first line of an export names it."""

    id: str
    user: str = ""
    namespace: str = ""
    version: int = 0
    forked_from: str | None = None  # the id of its parent, whose past it shares, if that is in the file too
    counts: dict[str, int] = {}  # what the file has of it: entries, checkpoints, blobs …; a fork has only its own


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an export."""

    release: str
    created: str  # ISO, UTC
    key: str = ""  # the id of the key that signed it
    threads: list[Listed]


_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder(Contents).decode


def first_line(contents: Contents, width: int = 0) -> bytes:
    """The first line of an export, at least `width` bytes long, so that counts can be filled in at the end."""
    line = MAGIC + b"%d " % FORMAT + _encode_json(contents)
    return line.ljust(width - 1) + b"\n"


def contents_of(line: bytes) -> Contents:
    """Read a first line; raise `NotAnExport` or `FormatTooNew`."""
    number, _, text = line.removeprefix(MAGIC).partition(b" ")
    if not number.isdigit():
        raise NotAnExport("the first line", "has no format number")
    if int(number[:9]) > FORMAT:
        raise FormatTooNew(f"has export format {number[:9].decode()}, this release reads {FORMAT}")
    if not line.endswith(b"\n"):
        raise NotAnExport("the first line", "has no end")
    try:
        contents = _decode_json(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise NotAnExport("the first line", f"cannot be read ({exc})") from exc
    if contents.key and not is_key_id(contents.key):
        raise NotAnExport("the first line", "names a key that cannot be one")
    return contents


class Allowance:
    """How much stored bytes may stand for: a small file must not fill the memory of who reads it."""

    def __init__(self) -> None:
        self._plain = self._stored = 0

    def takes(self, plain: int, stored: int) -> bool:
        """Whether so many more stored bytes may stand for so many more plain ones; they are counted if so."""
        if self._plain + plain > _FREE + _RATIO * (self._stored + stored):
            return False
        self._plain, self._stored = self._plain + plain, self._stored + stored
        return True


class Packer:
    """Turns records into blocks. One that would stand for more than it may is stored as it is."""

    def __init__(self) -> None:
        self._digest = GENESIS
        self._waiting = bytearray()
        self._allowance = Allowance()

    def add(self, record: bytes) -> Iterator[bytes]:
        """The blocks that are full once this record was added."""
        self._waiting += _LENGTH.pack(len(record))
        self._waiting += record
        while len(self._waiting) >= BLOCK:
            yield self._block(bytes(self._waiting[:BLOCK]))
            del self._waiting[:BLOCK]

    def end(self, line: bytes, key: bytes | None = None) -> Iterator[bytes]:
        """The last blocks of the export with this first line, which names the key, if there is one."""
        if self._waiting:
            yield self._block(bytes(self._waiting))
            self._waiting.clear()
        sizes = _SIZES.pack(0, 0)
        signed = b"" if key is None else signature(key, _chained(self._digest, sizes, line))
        yield sizes + signed + _chained(self._digest, sizes, line + signed)

    def _block(self, plain: bytes) -> bytes:
        stored = pack(plain)
        if len(stored) >= len(plain) or not self._allowance.takes(len(plain), len(stored)):
            stored = plain
            self._allowance.takes(len(plain), len(stored))
        sizes = _SIZES.pack(len(stored), len(plain))
        self._digest = _chained(self._digest, sizes, stored)
        return sizes + stored + self._digest


class Source(Protocol):
    """Where an export is read from: fewer bytes than asked for only at the end."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


class Unpacker:
    """Reads an export from its beginning, a block at a time, and believes nothing it has not checked."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._line = self._first()
        self._at = len(self._line)
        self._digest = GENESIS
        self._allowance = Allowance()
        self._signature = b""
        self.contents = contents_of(self._line)

    @property
    def most_items(self) -> int:
        """How many items what was read so far may stand for: each takes memory, however few bytes it is packed in."""
        return _FREE_ITEMS + self._at // _BYTES_AN_ITEM

    @property
    def most_moves(self) -> int:
        """How many changes that move the items of a list what was read so far may stand for: each takes time."""
        return _FREE_MOVES + self._at // _BYTES_AN_ITEM

    def records(self) -> Iterator[bytes]:
        """The records, in order; the export is intact once the last one was given."""
        waiting = bytearray()
        while (block := self._block()) is not None:
            waiting += block
            yield from self._whole(waiting)
        if waiting:
            raise NotAnExport(self._place(), "ends inside a record")

    def is_signed(self, keys: Mapping[str, bytes]) -> bool:
        """Whether one of these keys signed the export, of which all records were read.

        Raises `NotAnExport` for one that names such a key and was not signed with it.
        """
        digest = _chained(self._digest, _SIZES.pack(0, 0), self._line)
        signed = is_signed(keys, self.contents.key, digest, self._signature)
        if signed is False:
            raise NotAnExport("the signature", f"is not that of key {self.contents.key}, which the first line names")
        return bool(signed)

    def _first(self) -> bytes:
        start = self._source.read(len(MAGIC))
        if start != MAGIC:
            raise NotAnExport("the first line", f"does not begin with {MAGIC.decode()!r}")
        return start + self._source.readline(MAX_LINE)

    def _whole(self, waiting: bytearray) -> Iterator[bytes]:
        start, end = 0, len(waiting)
        while end - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(waiting, start)
            if length > MAX_RECORD:
                raise NotAnExport(self._place(), f"has a record that claims {length:,} bytes")
            if end - start - _LENGTH.size < length:
                break
            start += _LENGTH.size + length
            yield bytes(memoryview(waiting)[start - length : start])
        del waiting[:start]

    def _block(self) -> bytes | None:
        """The next block, None at the end of the export."""
        sizes = self._exactly(_SIZES.size)
        stored_size, plain_size = _SIZES.unpack(sizes)
        if not plain_size:
            self._end(sizes)
            return None
        if not 0 < stored_size <= plain_size <= BLOCK:
            raise NotAnExport(self._place(), f"has a block that claims {stored_size:,} for {plain_size:,} bytes")
        stored, digest = self._exactly(stored_size), self._exactly(len(GENESIS))
        if _chained(self._digest, sizes, stored) != digest:
            raise NotAnExport(self._place(), "fails its digest")
        if not self._allowance.takes(plain_size, stored_size):
            raise NotAnExport(self._place(), f"unpacks to more than {_RATIO} times its size")
        self._digest = digest
        plain = stored if stored_size == plain_size else unpacked(stored, plain_size)
        if plain is None:
            raise NotAnExport(self._place(), f"cannot be unpacked to the {plain_size:,} bytes it claims")
        self._at += _SIZES.size + stored_size + len(digest)
        return plain

    def _end(self, sizes: bytes) -> None:
        self._signature = self._exactly(MAC_BYTES if self.contents.key else 0)
        if _chained(self._digest, sizes, self._line + self._signature) != self._exactly(len(GENESIS)):
            raise NotAnExport(
                "the digest over everything", "is another one: the first line or the signature was changed"
            )
        if self._source.read(1):
            raise NotAnExport(self._place(), "should have ended: there are bytes after the end")

    def _exactly(self, size: int) -> bytes:
        found = self._source.read(size)
        if len(found) != size:
            raise NotAnExport(self._place(), "is cut off: the file ends here")
        return found

    def _place(self) -> str:
        return f"the block at byte {self._at:,}"


def unpacked(stored: bytes | memoryview, size: int) -> bytes | None:
    """Unpack one zstd frame of exactly this size; None when it is anything else, however much it would give."""
    unpacking = zstd.ZstdDecompressor()
    try:
        plain = unpacking.decompress(stored, max_length=size)
        more = b"" if unpacking.eof else unpacking.decompress(b"", max_length=1)
    except (zstd.ZstdError, EOFError):
        return None
    whole = len(plain) == size and not more and unpacking.eof and not unpacking.unused_data
    return plain if whole else None


def _chained(before: bytes, sizes: bytes, stored: bytes) -> bytes:
    hashed = sha256(before)
    hashed.update(sizes)
    hashed.update(stored)
    return hashed.digest()
