"""What a file of settings may say that nobody named: a local store and options, nothing that reaches out.

Whoever clones a folder has not read its `perdure.yaml`. It must not send their threads to a server, tell anybody of
their questions, read their environment, switch approvals off, or open a database elsewhere on their machine.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Set
from enum import Enum

from perdure.app.config.places import Page, Place, Placed
from perdure.app.opening import parse


class Trust(Enum):
    """How a file of settings came to be read, and so what it may say."""

    NAMED = "named"  # by --config, from_config or `perdure config trust`: everything
    DISCOVERED = "discovered"  # in the working folder: a local store and options


DISCOVERED_KEYS = frozenset({
    *("storage.sessions", *(f"storage.sessions.{name}" for name in (
        "url", "backend", "path", "namespace", "migrate", "durability", "max_pending", "lease_ttl", "user_id_type",
    ))),
    *(f"storage.checkpoint.{name}" for name in (
        "enabled", "strategy", "interval", "after_tools", "before_llm", "every",
    )),
    *(f"storage.checkpoint.recovery.{name}" for name in ("auto_resume", "auto_resume_hitl", "timeout")),
    *(f"human_in_the_loop.{name}" for name in (
        "enabled", "require_approval_for", "approval_timeout_seconds", "auto_reject_on_timeout",
    )),
})  # fmt: skip
_LOCAL = ("memory", "file", "sqlite")
_ADDRESS_KEYS = tuple(f"storage.sessions{each}" for each in (".url", ".dsn", ".path", ".backend", ""))


def check_discovered(page: Page, tree: Placed, known: Set[str], url: str, folder: str) -> None:
    """Add a problem for everything that a file may say only when somebody named it.

    `known` are the keys that are read at all (a key nobody knows is another mistake), `url` is the address that the
    file amounts to, `folder` the one that relative addresses start from.
    """
    places = dict(_leaves(tree))
    for key, place in places.items():
        if key not in DISCOVERED_KEYS and _is_known(key, known):
            page.problem(place, f"{key} {needs_trust(page.path)}")
    reason = address_refusal(url, folder)
    if reason is not None:
        place = next((places[key] for key in _ADDRESS_KEYS if key in places), Place(1, 1))
        page.problem(place, f"storage.sessions {reason}: it {needs_trust(page.path)}")


def needs_trust(path: str) -> str:
    """Why something is refused, and what to do about it."""
    shown = shlex.quote(path)
    return (
        "is not taken from a file that nobody named; read the file, then name it with --config "
        f"{shown}, or run `perdure config trust {shown}`"
    )


def address_refusal(url: str, folder: str) -> str | None:
    """Why a storage address is not one of a local store below a folder; None for one that is.

    Symbolic links are followed: one in a cloned folder leads to whatever its author likes.
    """
    address = parse(url)
    if address.scheme not in _LOCAL:
        return f"names a server ({address.scheme})"
    if address.scheme == "memory":
        return None
    if os.path.isabs(address.path) or ".." in address.path.replace("\\", "/").split("/"):
        return "leads out of the folder"
    inside = os.path.realpath(folder)
    target = os.path.realpath(os.path.join(inside, address.path))
    return None if os.path.commonpath([inside, target]) == inside else "leads out of the folder by a symbolic link"


def _leaves(placed: Placed, name: str = "") -> Iterator[tuple[str, Place]]:
    """The keys of a file, dotted, each with the place of its value; a list is one key."""
    for key, value in placed.value.items() if isinstance(placed.value, dict) else ():
        dotted = f"{name}.{key}" if name else key
        if isinstance(value.value, dict):
            yield from _leaves(value, dotted)
        else:
            yield dotted, value.place


def _is_known(key: str, known: Set[str]) -> bool:
    return any(each == key or each.startswith(f"{key}[].") for each in known)
