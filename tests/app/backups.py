"""Stores that believe each other's exports, as those of one operator do."""

from __future__ import annotations

from perdure.app.export_keys import add_key, own_key
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.sync import Perdure


def storage_of(store: Perdure) -> Storage:
    """The storage behind a store, set up."""
    store.setup()
    return store._store._parts.storage


def believe(target: Storage, source: Storage) -> None:
    """Give a storage the key of another: `perdure key show` there, `perdure key add` here."""
    drive(add_key(target, drive(own_key(source))))
