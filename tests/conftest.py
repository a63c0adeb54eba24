"""Settings that all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# Wall-clock never decides a test: these machines are shared.
settings.register_profile(
    "perdure", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("perdure")

# Files that take minutes begin first: one that began last would be waited for alone.
LONGEST = (
    *("contract/test_contract.py", "faults/test_hanging_servers.py", "crash/", "chaos/", "mutants/", "checkpoints/"),
    *("benchmarks/", "faults/", "runtime/", "storage/"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    return next((at for at, name in enumerate(LONGEST) if nodeid.startswith(f"tests/{name}")), len(LONGEST))
