"""Faults in the rules that all storages share."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core import checkpoint, digest, transfer, writes
from perdure.core.errors import LeaseHeldError, LeaseLostError, VersionConflictError
from perdure.core.writes import Write
from perdure.storage import lineage
from tests.mutants.planting import replace, with_changes


def no_request_comparison() -> None:
    replace(writes.same_request, lambda write, request, version: None)


def no_uid_check() -> None:
    admit = writes.admit
    replace(admit, lambda row, write: admit(row, write if row is None else with_changes(write, uid=None)))


def no_expected_check() -> None:
    admit = writes.admit
    replace(admit, lambda row, write: admit(row, with_changes(write, expected=None)))


def no_epoch_check() -> None:
    _forgive(LeaseLostError)


def no_lease_held_check() -> None:
    _forgive(LeaseHeldError)


def _forgive(error: type[Exception]) -> None:
    check = writes._check_lease

    def forgiving(row: Any, write: Write) -> None:
        try:
            check(row, write)
        except error:
            return

    writes._check_lease = forgiving


def lease_before_thread() -> None:
    """The order of the checks is turned round."""
    admit = writes.admit

    def hasty(row: Any, write: Write) -> Any:
        if row is not None and write.expected not in (None, row.state_version):
            raise VersionConflictError(write.key.id, 0, 0)
        return admit(row, write)

    replace(admit, hasty)


def times_go_back() -> None:
    stamped = writes.stamped
    replace(stamped, lambda row, write, now=None: stamped(msgspec.structs.replace(row, updated=0), write, now))


def epochs_stand_still() -> None:
    claimed = writes.claimed

    def claims(row: Any, *asked: Any) -> Any:
        return msgspec.structs.replace(claimed(row, *asked), epoch=max(row.epoch, 1))

    replace(claimed, claims)


def a_write_renews_nothing() -> None:
    stamped = writes.stamped
    replace(stamped, lambda row, write, now=None: stamped(row, with_changes(write, renew_until=0), now))


def no_chain() -> None:
    replace(digest.link, lambda *parts: bytes(32))


def no_chain_check() -> None:
    replace(digest.verify_links, lambda thread_id, version, chain, entries: entries[-1].chain if entries else chain)


def no_payload_check() -> None:
    unseal = digest.unseal
    replace(digest.body_of, lambda thread_id, entry: unseal(entry.payload or b""))


def copies_are_not_checked() -> None:
    replace(transfer.check, lambda copy: None)


def any_thread_is_brought_up() -> None:
    replace(transfer.standing_until, lambda standing, copy: min(standing.head, copy.row.head) if standing else 0)


def keys_are_twice_in_a_past() -> None:
    replace(transfer._cuts, lambda copy: [copy.inherited] if copy.inherited else [])


def metadata_is_not_compared() -> None:
    replace(checkpoint.has_metadata, lambda encoded, wanted: True)


def metadata_types_are_mixed_up() -> None:
    decode = checkpoint.decode
    replace(
        checkpoint.has_metadata,
        lambda encoded, wanted: all(decode(encoded).get(name) == value for name, value in wanted.items()),
    )


def filters_are_ignored() -> None:
    replace(checkpoint.matches, lambda row, query: True)


def forks_see_their_parents_future() -> None:
    def boundless(heads: Any, at: int) -> Any:
        return [lineage.Span(low, min(high, at)) for low, high in heads]

    replace(lineage.spans, boundless)
