"""`perdure version`."""

from __future__ import annotations

from importlib.metadata import version as metadata_version


def installed_version() -> str:
    """The version that is installed."""
    return metadata_version("perdure")


def version() -> None:
    """Print the version."""
    print(installed_version())
