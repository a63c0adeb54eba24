"""Every storage keeps the whole contract, for synchronous and for asynchronous callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.storage.contract import Schema, Storage
from perdure.testing.contract import LayoutContract, Mode, OpenStorage, SetSchema, StorageContract
from tests.contract.backends import BACKENDS, MODES, Backend
from tests.contract.emptied import EMPTIED


class OnBackend:
    """The fixtures that the suite asks for."""

    name = ""

    @pytest.fixture(params=MODES)
    def mode(self, request: pytest.FixtureRequest) -> Mode:
        return request.param

    @pytest.fixture
    def backend(self, mode: Mode, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Backend]:
        about_the_layout = request.function.__name__ in vars(LayoutContract)
        backend = (BACKENDS if about_the_layout else EMPTIED)[self.name](mode, tmp_path)
        yield backend
        backend.clear()

    @pytest.fixture
    def open_storage(self, backend: Backend) -> OpenStorage:
        async def open_storage() -> Storage:
            return backend.open()

        return open_storage

    @pytest.fixture
    def forgets(self, backend: Backend) -> bool:
        return backend.forgets

    @pytest.fixture
    def set_schema(self, backend: Backend) -> SetSchema:
        async def set_schema(schema: Schema) -> None:
            backend.set_schema(schema)

        return set_schema


class TestMemory(OnBackend, StorageContract):
    name = "memory"


class TestFile(OnBackend, StorageContract, LayoutContract):
    name = "file"


class TestSqlite(OnBackend, StorageContract, LayoutContract):
    name = "sqlite"


class TestPostgres(OnBackend, StorageContract, LayoutContract):
    name = "postgres"


class TestMysql(OnBackend, StorageContract, LayoutContract):
    name = "mysql"


class TestHotSqlite(OnBackend, StorageContract, LayoutContract):
    name = "hot_sqlite"


class TestHotPostgres(OnBackend, StorageContract, LayoutContract):
    name = "hot_postgres"
