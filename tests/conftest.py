"""Settings that all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# Wall-clock never decides a test: these machines are shared.
settings.register_profile(
    "perdure", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("perdure")

# Files that take minutes begin first: one that began last would be waited for alone. The very first mostly waits, and
# leaves the cores to those that work meanwhile.
LONGEST = (
    *("faults/test_hanging_servers.py", "contract/test_machine.py", "contract/test_contract.py", "chaos/", "mutants/"),
    *("crash/", "storage/test_background", "checkpoints/", "e2e/", "cli/", "benchmarks/", "faults/", "runtime/"),
    *("storage/", "seeds/"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    return next((at for at, name in enumerate(LONGEST) if nodeid.startswith(f"tests/{name}")), len(LONGEST))
