"""Names of prepared statements that nobody else has.

Behind a pooler in transaction mode, clients share the connections to the server, and psycopg numbers the statements of
each connection from 0. Another client's statement of the same name was then run with our values, and its answer taken
for ours: writes were lost and doubled without an error. A name that only we have is unknown there instead, which is an
error, and the end of prepared statements in this pool.
"""

from __future__ import annotations

import time
from typing import Any

_NUMBERED = 1 << 40  # psycopg gets this far by itself never


def name_apart(connection: Any) -> None:
    """Have psycopg number the statements of a connection from somewhere that no other connection does."""
    names = getattr(connection, "_prepared", None)
    if names is not None and names._prepared_idx < _NUMBERED:
        names._prepared_idx = number_apart(connection.pgconn) | _NUMBERED


def number_apart(libpq: Any) -> int:
    """A number that is given to no other connection."""
    process = libpq.backend_pid & 0xFFFFFFFF  # a pooler gives every client a random one
    return (process << 96) | (id(libpq) & 0xFFFFFFFF) << 64 | time.monotonic_ns()
