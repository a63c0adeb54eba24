"""What stands inside an entry that changes the state, and inside a snapshot."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from perdure.core.checkpoint import CheckpointMark
from perdure.core.ops import Op
from perdure.core.pruning import Talk


class StateChange(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A delta with the checkpoint that rides on it. `blobs` are digests of the large values it refers to."""

    ops: list[Op]
    mark: CheckpointMark | None = None
    to: int | None = None  # a rewind names the version it went back to
    blobs: list[bytes] = []


class WholeState(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A snapshot's content."""

    state: Raw
    blobs: list[bytes] = []
    apart: int = 0  # bytes of changes since the landmark before it; 0 for a landmark
    landmark: bool = True
    mark: CheckpointMark | None = None  # a base: the checkpoint of the entry it took the place of
    talk: Talk | None = None  # a base: the conversation up to it, as far as the state does not tell it
    times: list[tuple[int, int]] = []  # a base: the numbers of messages, and the versions they were said at
    spare: int = 0  # version of the rolling one before it, which may be there still


encode_body = msgspec.msgpack.Encoder().encode
encode_into = msgspec.msgpack.Encoder().encode_into
decode_change = msgspec.msgpack.Decoder(StateChange).decode
decode_whole = msgspec.msgpack.Decoder(WholeState).decode
decode_mark = msgspec.msgpack.Decoder(CheckpointMark).decode
