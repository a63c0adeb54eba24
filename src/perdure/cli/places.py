"""Whether there is anything at an address: for a command that makes nothing, a wrong one is the usual reason."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from perdure.app.opening import Address, files_of, parse
from perdure.app.options import hint
from perdure.cli.output import write_error
from perdure.cli.parameters import Place, Server
from perdure.core.errors import InvalidInputError, StorageUnavailableError
from perdure.storage.permissions import EXPOSED, PRIVATE, exposed

_NOUNS = {"sqlite": "database", "file": "folder"}
_ONCE = "name the storage once: by its URL, or by --config FILE"
_MADE = "; a program makes it when it first saves there"
Where = tuple[str, dict[str, Any]]  # an address, and the options of `open`


def place_of(url: str | None, at: Server, **more: Any) -> Where:
    """Where a store is: at an address, or where a file of settings says. What else is given wins over the file."""
    config, namespace = (at.config, at.namespace) if isinstance(at, Place) else (None, "")
    if url and config is not None:
        raise InvalidInputError(_ONCE)
    given = {name: value for name, value in {**at.options, **more}.items() if value is not None}
    given |= {"namespace": namespace} if namespace else {}
    if url:
        return url, {**given, "migrate": "check"}
    if config is None:
        from perdure.app.config.resolve import resolve_store

        found = resolve_store()
        if found.is_default:
            raise InvalidInputError(_ONCE)
        return found.url, {**found.options, **given, "migrate": "check"}
    from perdure.app.config.config import Config

    return Config.load(config).opened({**given, "migrate": "check"})


def check_there(url: str) -> None:
    """Raise `StorageUnavailableError` naming what was probably meant, where there is no file or folder."""
    address = parse(url)
    if address.scheme in _NOUNS and not os.path.exists(address.path):
        reason = f"there is no {_NOUNS[address.scheme]} yet{_meant(address) or _MADE}"
        raise StorageUnavailableError(os.path.abspath(address.path), reason)


def warn_of_exposed_files(url: str, options: Mapping[str, Any]) -> None:
    """Say on standard error when other accounts may read or change the files of a storage."""
    warn_of_exposed(files_of(parse(url)), options)


def warn_of_exposed(paths: Iterable[str], options: Mapping[str, Any]) -> None:
    """The same for files; what is not there is nobody's business."""
    for each in exposed(paths, options.get("file_mode", PRIVATE))[:1]:
        write_error(f"warning: {EXPOSED}: {each.path!r} has mode {each.mode:04o}")


def _meant(address: Address) -> str:
    if address.scheme == "sqlite" and not os.path.isabs(address.path) and os.path.exists(f"/{address.path}"):
        return f", did you mean sqlite:////{address.path}? Four slashes begin a path from the root"
    folder, name = os.path.split(address.path)
    try:
        return hint(name, tuple(os.listdir(folder or ".")))
    except OSError:
        return f": there is no folder {os.path.abspath(folder)}"
