"""The store of a command: `--store`, else `PERDURE_STORE`, else `.env`, else the nearest `perdure.yaml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.app.config.config import Config, Sources, read_config, read_sources
from perdure.app.config.keys import CONFIG_VARIABLE
from perdure.app.config.settings import Setting
from perdure.app.config.trust import Trust
from perdure.app.config.trusted_files import TrustedFiles
from perdure.core.errors import InvalidConfigError

FILE_NAME = "perdure.yaml"


class StoreAddress(NamedTuple):
    """Where a store is, and who says so."""

    url: str
    options: dict[str, Any]  # of `open`, those that somebody gave: namespace, schema, hot, checkpoints …
    origin: str  # for people: "flag --store", "environment variable PERDURE_STORE", "perdure.yaml:1:8", "default"
    is_default: bool  # nobody named a store

    def __repr__(self) -> str:
        """Without what may be a password."""
        from perdure.core.addresses import redact_url

        return f"StoreAddress({redact_url(self.url)!r}, options={sorted(self.options)!r}, origin={self.origin!r})"


def find_config(folder: str | None = None) -> str | None:
    """The `perdure.yaml` of a folder, else of the nearest one above it; None where there is none."""
    start = os.path.abspath(folder or os.getcwd())
    at = start
    while True:
        path = os.path.join(at, FILE_NAME)
        if os.path.isfile(path):
            return os.path.relpath(path, start) if folder is None else path
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def resolve_sources(
    store: str | None = None, config: str | None = None, *, environment: Mapping[str, str] | None = None,
    folder: str | None = None, looking: bool = False,
) -> Sources:  # fmt: skip
    """All that says something about the store of a command; raise `InvalidConfigError`.

    A file that `config` or `PERDURE_CONFIG` names is read whole. One that is merely found is read as far as nothing in
    it reaches out; for a command that is only `looking`, what it says beside the store does not matter. Nothing that is
    found is read where `store` names one: a file that nobody named does not change what was typed.
    """
    variables = os.environ if environment is None else environment
    flags = {"store": store} if store is not None else None
    named = config or variables.get(CONFIG_VARIABLE)
    if named:
        return read_sources(named, environment=environment, flags=flags)
    path = None if store is not None else find_config(folder)
    if path is not None:
        _check_owner(path)
    trust = Trust.LOOKED_AT if looking else Trust.DISCOVERED
    return read_sources(path, trust=trust, environment=environment, env_file=store is None, flags=flags)


def resolve_store(
    store: str | None = None, config: str | None = None, *, environment: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> StoreAddress:  # fmt: skip
    """The address of the store of a command, with the options of `open`; raise `InvalidConfigError`.

    `store` is what the command line says. `config` is a file that it names. Without any of them the store is
    `sqlite:///perdure.db` in the working folder, and `is_default` says so.
    """
    sources = resolve_sources(store, config, environment=environment, folder=folder, looking=True)
    found = sources.config()
    setting: Setting | None = sources.settings.get("store")
    url, options = found.opened({})
    _, unsaid = read_config({}).opened({})
    kept = {name: value for name, value in options.items() if name not in unsaid or value != unsaid[name]}
    origin = "default" if setting is None else setting.origin
    return StoreAddress(url, kept, origin, setting is None)


def resolve_config(config: str | None = None, store: str | None = None) -> Config:
    """The whole configuration of a command, such as a worker's; raise `InvalidConfigError`."""
    return resolve_sources(store, config).config()


def _check_owner(path: str) -> None:
    """Raise for a found file of another account: what lies in a folder above may be anybody's."""
    from perdure.app.config.places import read_bytes

    owner = os.stat(path).st_uid
    if owner not in (os.geteuid(), 0) and not TrustedFiles().has(path, read_bytes(path)):
        why = "it belongs to another account; read the file, then name it with --config, or remove it"
        raise InvalidConfigError(path, [f"{path}: {why}"])
