"""`perdure compare URL A B [C D]`: how points of threads differ."""

from __future__ import annotations

from rich.console import Console

from perdure.app.options import UserIdType
from perdure.cli.opened import Output, as_json
from perdure.cli.stores import opened_store, user_of
from perdure.core.comparison import Comparison, Comparisons
from perdure.core.errors import InvalidInputError


def compare(
    url: str,
    a: str,
    b: str,
    c: str | None = None,
    d: str | None = None,
    /,
    *,
    user: str | None = None,
    patch: bool = False,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """Say how two to four points of threads differ.

    A point is THREAD@REF (ticket-42@12, ticket-42@-1, ticket-42@before-error), a THREAD for its newest version, or the
    id of a checkpoint. The others are compared with the first.

    Parameters
    ----------
    url
        The address of the storage; nothing is changed there.
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
    namespace
        The namespace of the threads.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    points = [point for point in (a, b, c, d) if point is not None]
    if patch and len(points) > 2:
        raise InvalidInputError(f"a patch leads from one point to another: give 2 points, not {len(points)}")
    with opened_store(url, namespace, schema, user_id_type) as store:
        found = store.compare(*points, user=user_of(user, user_id_type))
    _print(Console(), found, "patch" if patch else output)


def _print(console: Console, found: Comparison | Comparisons, output: str) -> None:
    # Not by the console's own means: it would wrap lines, and take text in brackets for markup.
    if output == "patch" and isinstance(found, Comparison):
        console.file.write(as_json(found.patch()) + "\n")
    elif output == "json":
        console.file.write(as_json(found.data()) + "\n")
    else:
        console.file.write(found.text(color=console.color_system is not None and not console.no_color))
