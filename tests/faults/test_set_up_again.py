"""Setting up is done twice without harm: a store in use waits for its server then, as for every call."""

# ruff: noqa: F811  # fixtures are asked for by their names
from __future__ import annotations

import threading

import pytest

from perdure.core.errors import StorageUnavailableError
from perdure.storage.contract import SCHEMA
from tests.faults.hanging import BOUND, Hanging, frozen, mariadb, opened, postgres, server, url, way  # noqa: F401  # fixtures


def test_a_store_in_use_sets_up_again_after_a_restart(way: str, url: str, server: Hanging) -> None:
    with opened(way, url, retry_seconds=BOUND, call_timeout=BOUND) as scene:
        scene.run(scene.scribe.append())
        server.stop()
        server.start()
        assert scene.run(scene.storage.setup()).schema == SCHEMA


def test_a_store_in_use_sets_up_again_while_its_server_is_restarted(way: str, url: str, server: Hanging) -> None:
    with opened(way, url, retry_seconds=BOUND, call_timeout=BOUND) as scene:
        scene.run(scene.scribe.append())
        server.stop()
        later = threading.Timer(0.5, server.start)
        later.start()
        try:
            assert scene.run(scene.storage.setup()).schema == SCHEMA
        finally:
            later.join()
            server.start()
        assert scene.run(scene.scribe.append()).version == 2


def test_a_set_up_at_a_server_that_hangs_ends(way: str, url: str, server: Hanging) -> None:
    with opened(way, url) as scene:
        with frozen(server), pytest.raises(StorageUnavailableError):
            scene.run(scene.storage.setup())
        assert scene.run(scene.storage.setup()).schema == SCHEMA
