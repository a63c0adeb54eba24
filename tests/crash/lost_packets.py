"""A peer that vanished: its packets are dropped below TCP, so that not even an acknowledgement comes back.

A proxy that only stops forwarding is not that: the system behind it goes on to acknowledge what it receives.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable

from perdure.testing.proxy import FaultProxy

_ATTACH_FILTER, _DETACH_FILTER = 26, 27  # SO_…, which Python does not name
_DROP = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction of BPF: return 0, keep nothing


def vanish(proxy: FaultProxy, *, also_new: bool = False) -> None:
    """Let every packet that clients send be lost on the connections that are there, and on new ones if asked."""
    for each in _sockets(proxy, also_new):
        program = ctypes.create_string_buffer(_DROP)
        each.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


def reappear(proxy: FaultProxy) -> None:
    """Take new connections again."""
    for each in proxy._listener.sockets if proxy._listener else ():
        each.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)


def _sockets(proxy: FaultProxy, also_new: bool) -> Iterable[socket.socket]:
    yield from [link.ends[0].writer.get_extra_info("socket") for link in proxy._links]
    if also_new and proxy._listener:
        yield from proxy._listener.sockets
