"""What a file of settings may say that nobody named: a local store and options, nothing that reaches out.

Whoever clones a folder has not read its `perdure.yaml`. It must not send their threads to a server, tell anybody of
their questions, read their environment, switch approvals off, run its modules, or open a database elsewhere on their
machine. The same holds for the `.env` of a folder.
"""

from __future__ import annotations

import os
import shlex
from enum import Enum

from perdure.app.config.environment import is_env_file
from perdure.app.config.keys import BY_NAME
from perdure.app.config.places import Page, Place
from perdure.app.config.settings import WRONG, Settings
from perdure.app.opening import parse
from perdure.core.errors import InvalidInputError


class Trust(Enum):
    """How a file of settings came to be read, and so what it may say."""

    NAMED = "named"  # by --config, from_config or `perdure config trust`: everything
    DISCOVERED = "discovered"  # in the working folder: a local store and options
    LOOKED_AT = "looked_at"  # the same, where only the store is used: what else it says is not read at all


_LOCAL = ("memory", "file", "sqlite")
# What a command uses that only looks at a store. Other settings of a file that nobody trusted do not matter to it.
STORE_KEYS = frozenset(name for name in BY_NAME if "." not in name and name not in ("webhooks", "prices"))


def check_discovered(page: Page, settings: Settings, default: str, trust: Trust) -> Settings:
    """Add a problem for everything that a file may say only when somebody named it; return what is used of it."""
    used = {name: each for name, each in settings.items() if trust is Trust.DISCOVERED or name in STORE_KEYS}
    for name, each in used.items():
        if not BY_NAME[name].harmless:
            each.problem(f"{each.name} {needs_trust(page.path)}")
        elif each.value is WRONG and each.place in (page.later or {}):
            each.problem((page.later or {})[each.place])
    store = used.get("store")
    url = default if store is None else store.value
    reason = None if url is WRONG else address_refusal(url, page.folder or os.getcwd())
    if reason is not None:
        place, name = (Place(1, 1), default_name(settings)) if store is None else (store.place, store.name)
        page.problem(place, f"{name} {reason}: it {needs_trust(page.path)}")
    return used if trust is Trust.LOOKED_AT else settings


def default_name(settings: Settings) -> str:
    """What the missing address is called: in the words of the file, as far as it has any."""
    written = [each.name for each in settings.values()]
    hector = not written or any(name.startswith(("storage.", "human_in_the_loop.")) for name in written)
    return "storage.sessions" if hector else "store"


def needs_trust(path: str) -> str:
    """Why something is refused, and what to do about it."""
    shown = shlex.quote(path)
    if is_env_file(path):
        advice = f"set it in your environment, or run `perdure config trust {shown}`"
        return f"is not taken from a file that nobody named; read the file, then {advice}"
    return (
        "is not taken from a file that nobody named; read the file, then name it with --config "
        f"{shown}, or run `perdure config trust {shown}`"
    )


def address_refusal(url: str, folder: str) -> str | None:
    """Why a storage address is not one of a local store below a folder; None for one that is.

    Symbolic links are followed: one in a cloned folder leads to whatever its author likes.
    """
    try:
        address = parse(url)
    except InvalidInputError:
        return None  # told where every address is checked
    if address.scheme not in _LOCAL:
        return f"names a server ({address.scheme})"
    if address.scheme == "memory":
        return None
    if os.path.isabs(address.path) or ".." in address.path.replace("\\", "/").split("/"):
        return "leads out of the folder"
    inside = os.path.realpath(folder)
    target = os.path.realpath(os.path.join(inside, address.path))
    return None if os.path.commonpath([inside, target]) == inside else "leads out of the folder by a symbolic link"
