"""`perdure compare URL A B [C D]`: how points of threads differ."""

from __future__ import annotations

from perdure.cli.common_options import HERE, Output, ThreadOptions, opened_store, user_of
from perdure.cli.lookup import point_of
from perdure.cli.output import write_data, write_lines
from perdure.core.comparison import Comparison
from perdure.core.errors import InvalidInputError
from perdure.sync import Perdure

_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def compare(
    a: str,
    b: str,
    c: str | None = None,
    d: str | None = None,
    /,
    *,
    user: str | None = None,
    patch: bool = False,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Say how two to four points of threads differ.

    A point is THREAD@REF (ticket-42@12, ticket-42@-1, ticket-42@before-error), a THREAD for its newest version, or the
    id of a checkpoint. The others are compared with the first.

    Parameters
    ----------
    a
        The point that the others are compared with.
    b
        Another point.
    c
        One more.
    d
        And one more.
    user
        Only threads of this user are there; "" for those that belong to nobody.
    patch
        Print a JSON Patch (RFC 6902) that leads from A to B.
    """
    points = [point for point in (a, b, c, d) if point is not None]
    if patch and len(points) > 2:
        raise InvalidInputError(f"a patch leads from one point to another: give 2 points, not {len(points)}")
    with opened_store(at) as store:
        found = store.compare(*(_point(store, each, user) for each in points), user=user_of(user, store))
    if patch and isinstance(found, Comparison):
        write_data(found.patch(), "json" if output == "table" else output)
    elif output != "table":
        write_data(found.data(), output)
    else:
        write_lines((line, _STYLES.get(line[:1], "")) for line in found.text().splitlines())


def _point(store: Perdure, typed: str, user: str | None) -> object:
    """What `compare` of a store takes: a thread with its ref, or the id of a checkpoint of any thread."""
    if typed.removeprefix("@").startswith("chk_") and "@" not in typed[1:]:
        return typed
    return point_of(store, typed, None, user)
