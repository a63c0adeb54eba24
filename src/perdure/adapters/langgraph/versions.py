"""Versions of channels as LangGraph's PostgresSaver needs them: it keeps one value for each, whatever the branch.

Ours are counted, so two branches of a thread may have different values of the same version.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

Names = dict[tuple[str, Any], str]  # a channel and its version here → its version there


def named(checkpoint: Mapping[str, Any], before: Names) -> Names:
    """The versions that stand in a checkpoint; those that its parent has too are called as there."""
    return {each: before.get(each) or _unique(each[1], checkpoint["id"]) for each in _pairs(checkpoint)}


def paired(here: Mapping[str, Any], there: Mapping[str, Any]) -> Names:
    """How the versions of a checkpoint that is there are called."""
    return dict(zip(_pairs(here), (version for _, version in _pairs(there)), strict=False))


def renamed(checkpoint: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The checkpoint with other versions."""
    seen = {node: _each(versions, names) for node, versions in checkpoint["versions_seen"].items()}
    return {**checkpoint, "channel_versions": _each(checkpoint["channel_versions"], names), "versions_seen": seen}


def _each(versions: Mapping[str, Any], names: Names) -> dict[str, str]:
    return {channel: names[channel, version] for channel, version in versions.items()}


def _pairs(checkpoint: Mapping[str, Any]) -> list[tuple[str, Any]]:
    maps = [checkpoint["channel_versions"], *(seen for _, seen in sorted(checkpoint["versions_seen"].items()))]
    return [(channel, versions[channel]) for versions in maps for channel in sorted(versions)]


def _unique(version: Any, checkpoint: str) -> str:
    """A version as their saver makes it: a count, and digits that no other branch has."""
    if isinstance(version, str) and "." in version:
        return version
    digits = int.from_bytes(sha256(checkpoint.encode()).digest()[:6], "big")
    return f"{int(version):032}.0.{digits:015}"
