"""What each extra needs: its packages, the oldest release of each that works, and the error where one is older."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from perdure.core.errors import MissingExtraError

# As in pyproject.toml: a test compares the two. What is installed may be older all the same.
OLDEST: Mapping[str, Mapping[str, str]] = {
    "cli": {"cyclopts": "4.0", "rich": "14.0"},
    "config": {"ruamel.yaml": "0.18"},
    "postgres": {"psycopg": "3.2", "psycopg-pool": "3.3"},
    "mysql": {"PyMySQL": "1.1", "asyncmy": "0.2.10"},
    "redis": {"redis": "5.2"},
    "otel": {"opentelemetry-api": "1.30"},
    "langgraph": {"langgraph": "1.2.15", "langgraph-checkpoint": "4.3.0"},
    "inject": {"injectq": "0.4"},
    "webhooks": {"httpx": "0.27"},
    "forms": {"jsonschema": "4.20"},
    "openai": {"httpx": "0.27", "stamina": "25.1"},
    "openai-sdk": {"openai": "2.0"},
    "pydantic-ai": {"pydantic-ai-slim": "1.0"},
}
_RELEASE = re.compile(r"(?:[0-9]+!)?([0-9]{1,9}(?:\.[0-9]{1,9})*)")


def missing(what: str, extra: str) -> MissingExtraError:
    """The error about an extra that cannot be imported: a package of it is not installed, or is too old."""
    for package, oldest in OLDEST[extra].items():
        installed = _installed(package)
        if installed is not None and is_older(installed, oldest):
            return MissingExtraError(what, extra, package=package, installed=installed, oldest=oldest)
    return MissingExtraError(what, extra)


@cache
def check_releases(what: str, extra: str) -> None:
    """Raise `MissingExtraError` if a package of an extra is installed and too old."""
    error = missing(what, extra)
    if error.package:
        raise error


def is_older(installed: str, oldest: str) -> bool:
    """Whether a release comes before another. One that is not numbered as PyPI numbers them is taken for new."""
    numbers = _numbers(installed)
    return bool(numbers) and numbers < _numbers(oldest)


def _numbers(release: str) -> tuple[int, ...]:
    found = _RELEASE.match(release)
    numbers = [int(each) for each in found[1].split(".")] if found else []
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()  # 4.0 and 4.0.0 are the same release
    return tuple(numbers)


def _installed(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None  # not installed, or copied here without its description
