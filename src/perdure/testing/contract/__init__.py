"""The contract that every storage keeps, as tests to run on your own.

    class TestMyStorage(StorageContract, LayoutContract):
        @pytest.fixture(params=["sync", "async"])
        def mode(self, request): return request.param

        @pytest.fixture
        def open_storage(self, mode, tmp_path):
            async def open_storage(): return MyStorage(tmp_path / "place", mode=mode)
            return open_storage

        @pytest.fixture
        def set_schema(self, tmp_path): ...     # for LayoutContract: writes a Schema into the closed place

Each test is written once; in mode "sync" it is driven in place and fails when the storage waits for something.
"""

from __future__ import annotations

import pytest

_PARTS = (
    *("running", "log", "headers", "verdicts", "keys", "prefixes", "restore", "snapshots", "checkpoints", "filters"),
    *("named", "directory"),
    *("forks", "deletion", "leases", "watching", "blobs", "keeping", "lifetime", "sizes", "concurrency", "known"),
    *("strangers", "runs", "next_runs"),
    *("rewinding", "prunes", "pruning", "prune_plans", "pruned_forks", "pruned_values", "whole_logs", "derived"),
    *("transfer", "transfer_forks", "quarantine", "messages", "user_messages"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from perdure.testing.contract.blobs import BlobContract, ErasureContract  # noqa: E402 (rewritten asserts first)
from perdure.testing.contract.checkpoints import CheckpointContract, UserCheckpointContract  # noqa: E402
from perdure.testing.contract.concurrency import ConcurrencyContract  # noqa: E402
from perdure.testing.contract.deletion import DeletionContract  # noqa: E402
from perdure.testing.contract.derived import DerivedContract  # noqa: E402
from perdure.testing.contract.directory import DirectoryContract, IdentityContract  # noqa: E402
from perdure.testing.contract.filters import FilterContract  # noqa: E402
from perdure.testing.contract.forks import ForkContract  # noqa: E402
from perdure.testing.contract.headers import HeaderContract  # noqa: E402
from perdure.testing.contract.keeping import KeepContract  # noqa: E402
from perdure.testing.contract.keys import KeyContract, KeyedContract, WriteIdContract  # noqa: E402
from perdure.testing.contract.known import KnownContract, KnownTogetherContract  # noqa: E402
from perdure.testing.contract.leases import DueContract, LeaseContract  # noqa: E402
from perdure.testing.contract.lifetime import LayoutContract, LifetimeContract, SetSchema  # noqa: E402
from perdure.testing.contract.log import LogContract  # noqa: E402
from perdure.testing.contract.messages import MessageContract  # noqa: E402
from perdure.testing.contract.named import NamedCheckpointContract  # noqa: E402
from perdure.testing.contract.next_runs import NextRunContract  # noqa: E402
from perdure.testing.contract.prefixes import UnderContract  # noqa: E402
from perdure.testing.contract.prune_plans import PlanContract  # noqa: E402
from perdure.testing.contract.pruned_forks import PrunedForkContract  # noqa: E402
from perdure.testing.contract.pruned_values import PrunedValueContract  # noqa: E402
from perdure.testing.contract.pruning import PruneContract  # noqa: E402
from perdure.testing.contract.quarantine import QuarantineContract  # noqa: E402
from perdure.testing.contract.restore import RestoreContract  # noqa: E402
from perdure.testing.contract.rewinding import NeededContract, RewindContract  # noqa: E402
from perdure.testing.contract.running import Contract, Mode, OpenStorage  # noqa: E402
from perdure.testing.contract.runs import CopiedRunContract, RunContract  # noqa: E402
from perdure.testing.contract.sizes import SizeContract  # noqa: E402
from perdure.testing.contract.snapshots import SnapshotContract  # noqa: E402
from perdure.testing.contract.strangers import StrangerContract  # noqa: E402
from perdure.testing.contract.transfer import (  # noqa: E402
    DamagedCopyContract,
    GrowingContract,
    TransferContract,
)
from perdure.testing.contract.transfer_forks import TransferForkContract  # noqa: E402
from perdure.testing.contract.user_messages import UserMessageContract  # noqa: E402
from perdure.testing.contract.verdicts import VerdictContract  # noqa: E402
from perdure.testing.contract.watching import WatchContract  # noqa: E402
from perdure.testing.contract.whole_logs import WholeLogContract  # noqa: E402


class StorageContract(
    LogContract,
    HeaderContract,
    VerdictContract,
    KeyContract,
    KeyedContract,
    UnderContract,
    WriteIdContract,
    RestoreContract,
    SnapshotContract,
    CheckpointContract,
    UserCheckpointContract,
    FilterContract,
    NamedCheckpointContract,
    DirectoryContract,
    IdentityContract,
    ForkContract,
    DeletionContract,
    LeaseContract,
    DueContract,
    WatchContract,
    BlobContract,
    ErasureContract,
    KeepContract,
    LifetimeContract,
    SizeContract,
    ConcurrencyContract,
    KnownContract,
    KnownTogetherContract,
    StrangerContract,
    RunContract,
    CopiedRunContract,
    NextRunContract,
    TransferContract,
    GrowingContract,
    DamagedCopyContract,
    TransferForkContract,
    QuarantineContract,
    RewindContract,
    NeededContract,
    WholeLogContract,
    PruneContract,
    PlanContract,
    PrunedForkContract,
    PrunedValueContract,
    DerivedContract,
    MessageContract,
    UserMessageContract,
):
    """The whole contract, but for the layout on disk."""


__all__ = ["Contract", "LayoutContract", "Mode", "OpenStorage", "SetSchema", "StorageContract"]
