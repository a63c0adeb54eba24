"""`perdure key show|list|add|remove`: the keys that sign exports, and whose signatures are believed."""

from __future__ import annotations

import sys
from typing import Literal

from perdure.app.export_keys import add_key, all_keys, own_key, remove_key
from perdure.cli.common_options import ANY_STORE, Output, StoreOptions, opened_storage
from perdure.cli.output import write_data, write_plain
from perdure.cli.problems import UsageError
from perdure.core.export_keys import key_id, parse_key, shown_key
from perdure.storage.contract import Storage
from perdure.storage.drive import drive

_LONGEST = 4096  # characters of a key that is read


def key(
    action: Literal["show", "list", "add", "remove"],
    name: str | None = None,
    /,
    *,
    at: StoreOptions = ANY_STORE,
    output: Output = "table",
) -> None:
    """Show, add or remove keys that sign exports.

    A file that one of them signed may continue threads of this storage and be imported with --trust: whoever has the
    key has that authority. Keep it as you keep a password of the database.

    Parameters
    ----------
    action
        `show` prints the secret key of this storage, `list` the ids of all keys that it believes, `add` reads the key
        of another storage from standard input, `remove` no longer believes the key of an id.
    name
        The id of the key to remove.
    """
    if (action == "remove") != (name is not None):
        raise UsageError("`key remove` takes the id of a key, as `key list` prints it; the other actions take none")
    with opened_storage(at) as storage:
        if action == "show":
            line, told = shown_key(drive(own_key(storage))), None
        elif action == "add":
            added = drive(add_key(storage, parse_key(sys.stdin.read(_LONGEST))))
            line, told = f"added              {added}", {"added": added}
        elif action == "remove":
            drive(remove_key(storage, str(name)))
            line, told = f"removed            {name}", {"removed": name}
        else:
            listed = _listed(storage)
            line = (
                "\n".join(f"{each['id']}  {each['of']}" for each in listed) or "no key yet; the first export makes one"
            )
            told = listed
    if output == "table":
        write_plain(line)
    else:
        write_data({"key": line} if action == "show" else told, output)


def _listed(storage: Storage) -> list[dict[str, str]]:
    known = drive(all_keys(storage))
    own = drive(storage.kept("export.key.own"))
    mine = {key_id(secret) for secret in own.values()}
    return [{"id": name, "of": "this storage" if name in mine else "another storage"} for name in known]
