"""`perdure compare URL A B [C D]`: how points of threads differ."""

from __future__ import annotations

from perdure.cli.output import write_json, write_lines
from perdure.cli.parameters import HERE, Output, Place, Untouched
from perdure.cli.stores import opened_store, user_of
from perdure.core.comparison import Comparison
from perdure.core.errors import InvalidInputError

_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def compare(
    url: Untouched,
    a: str,
    b: str,
    c: str | None = None,
    d: str | None = None,
    /,
    *,
    user: str | None = None,
    patch: bool = False,
    at: Place = HERE,
    output: Output = "text",
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
    with opened_store(url, at) as store:
        found = store.compare(*points, user=user_of(user, store))
    if patch and isinstance(found, Comparison):
        write_json(found.patch())
    elif output == "json":
        write_json(found.data())
    else:
        write_lines((line, _STYLES.get(line[:1], "")) for line in found.text().splitlines())
