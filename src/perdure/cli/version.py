"""`perdure version`."""

from __future__ import annotations

from importlib.metadata import version as metadata_version

from perdure.cli.output import write_plain


def installed_version() -> str:
    """The version that is installed."""
    return metadata_version("perdure")


def version() -> None:
    """Print the version."""
    write_plain(installed_version())
