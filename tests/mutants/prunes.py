"""Faults in the rules of rewinds and prunes, and in how storages carry them out."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.checkpoints import composing, logs
from perdure.core import compose, conversation, cuts, forks, pruning, seams, writes
from perdure.core.seams import Range
from perdure.storage import memory
from perdure.storage.file import pruning as file_pruning
from perdure.storage.sql import pruning as sql_pruning
from tests.mutants.planting import Plant, replace, restate

NOTHING = ("WHERE", "WHERE 1 = 0 AND")


def _with(**changes: Any) -> Plant:
    """Every storage carries out another plan than it was given."""

    def bent(plan: Any) -> Any:
        return msgspec.structs.replace(plan, **changes)

    def plant() -> None:
        prune, sql_prune, begin = memory._prune, sql_pruning.prune, file_pruning._Shedding.__init__
        memory._prune = lambda log, head, plan: prune(log, head, bent(plan))
        replace(sql_prune, lambda tx, stored, head, plan: sql_prune(tx, stored, head, bent(plan)))
        file_pruning._Shedding.__init__ = lambda self, plan, uses: begin(self, bent(plan), uses)

    return plant


checkpoints_stay = _with(unmarked=())
named_entries_keep_their_payload = _with(blank=())


def nothing_is_blanked() -> None:
    pruning.Pruning.blanks = lambda self, entry: False
    restate("BLANK_RANGE", *NOTHING)


def messages_are_blanked_too() -> None:
    blanks = pruning.Pruning.blanks

    def greedy(self: pruning.Pruning, entry: Any) -> bool:
        return blanks(self, entry) or any(each.low < entry.version <= each.version for each in self.records)

    pruning.Pruning.blanks = greedy
    restate("BLANK_RANGE", " AND kind IN .*", "")


def whole_states_stay_inside_ranges() -> None:
    pruning.Pruning.covers = lambda self, version: False
    restate("DROP_INSIDE", *NOTHING)


def whole_states_after_a_range_go_too() -> None:
    pruning.Pruning.covers = lambda self, version: any(each.low < version for each in self.records)
    restate("DROP_INSIDE", r'"row" <= \S+', '"row" > 0')


def older_records_stay() -> None:
    pruning.Pruning.covers = lambda self, version: False
    restate("DROP_COMPOSED", *NOTHING)


def a_base_is_put_a_version_early() -> None:
    base = writes.base_of
    replace(base, lambda record: msgspec.structs.replace(base(record), version=record.version - 1))
    put = sql_pruning.put_record

    async def early(tx: Any, stored: Any, record: Any) -> None:
        await put(tx, stored, msgspec.structs.replace(record, version=record.version - int(record.whole)))

    replace(put, early)


def the_end_of_a_range_is_gone_too() -> None:
    pruning.Record.gone = property(lambda self: Range(self.low, self.version))


def no_fork_is_looked_for() -> None:
    replace(forks.needed, lambda uid, lines, targets=forks.NOTHING: [])


def forks_of_forks_are_not_looked_for() -> None:
    def nearest(uid: str, lines: Any, targets: Any = forks.NOTHING) -> list[int]:
        return sorted({line.parent_version for line in lines if line.parent_uid == uid})

    replace(forks.needed, nearest)


def where_forks_went_back_to_is_forgotten() -> None:
    needed = forks.needed
    replace(needed, lambda uid, lines, targets=forks.NOTHING: needed(uid, lines))


def a_fork_of_a_fork_needs_what_it_began_at() -> None:
    """Even where that is after what its parent has of the thread."""

    def boundless(uid: str, lines: Any, targets: Any, bound: Any) -> Any:
        for line in lines:
            if line.parent_uid == uid:
                yield line.parent_version
                yield from (target for target in targets.get(line.uid, ()) if target < line.parent_version)
                yield from boundless(line.uid, lines, targets, None)

    forks._needed = boundless


def plans_are_never_outdated() -> None:
    replace(pruning.check_current, lambda row, plan, needed, newer: None)


def named_points_make_no_plan_outdated() -> None:
    pruning._NAMING = frozenset()


def gone_versions_can_be_forked() -> None:
    replace(seams.check_there, lambda thread_id, version, gone: None)
    restate("IS_GONE", *NOTHING)


def a_redo_is_a_rewind_like_any_other() -> None:
    """What a rewind left stays left, though a later one went back to it."""

    def left(rewinds: Any, at: int) -> list[Range]:
        return [Range(each.to, each.entry - 1) for each in rewinds if each.entry <= at]

    replace(seams.left, left)


def large_values_are_never_let_go() -> None:
    _with(uses=None)()
    file_pruning._uses = lambda row, plan: None


def large_values_are_let_go_though_others_wrote() -> None:
    """The thread is taken for what it was when the plan was made."""
    prune, sql_prune, uses = memory._prune, sql_pruning.prune, file_pruning._uses
    memory._prune = lambda log, head, plan: prune(log, plan.seen, plan)
    replace(sql_prune, lambda tx, stored, head, plan: sql_prune(tx, stored, plan.seen, plan))
    file_pruning._uses = lambda row, plan: uses(msgspec.structs.replace(row, head=plan.seen), plan)


def values_of_records_are_not_held() -> None:
    def without(record: Any) -> Any:
        return msgspec.structs.replace(record, blobs=())

    prune, sql_prune = memory._prune, sql_pruning.prune

    def bent(plan: Any) -> Any:
        return msgspec.structs.replace(plan, records=tuple(map(without, plan.records)))

    memory._prune = lambda log, head, plan: prune(log, head, bent(plan))
    replace(sql_prune, lambda tx, stored, head, plan: sql_prune(tx, stored, head, bent(plan)))


def kept_points_are_cut_away() -> None:
    """A range goes on over the point where it should end."""
    cut = cuts.cuts
    replace(cut, lambda steps, kept, dropped, **rest: cut(steps, sorted(kept)[-1:], dropped, **rest))


def a_fork_gets_a_base() -> None:
    cut = cuts.cuts
    replace(cut, lambda steps, kept, dropped, **rest: cut(steps, kept, dropped, **(rest | {"is_fork": False})))


def ranges_without_dropped_points_are_cut() -> None:
    cut = cuts.cuts
    replace(cut, lambda steps, kept, dropped, **rest: cut(steps, kept, [each.high for each in steps], **rest))


def keys_set_again_keep_their_old_place() -> None:
    compose._moves_to_end = lambda op, earlier: False


def a_rewind_takes_nothing_back_that_was_said() -> None:
    conversation.Conversation.turn = lambda self, change, before: self.follow(change.ops)


def lost_messages_are_not_kept() -> None:
    talk = conversation.Conversation.talk
    conversation.Conversation.talk = lambda self, *known: msgspec.structs.replace(talk(self, *known), lost=[])


def pauses_hold_nothing() -> None:
    logs.Log.pauses = lambda self: []


def messages_always_go() -> None:
    begin = composing.Composer.__init__

    def careless(self: Any, storage: Any, log: Any, **options: Any) -> None:
        begin(self, storage, log, **(options | {"keep_messages": False}))

    composing.Composer.__init__ = careless


def tags_hold_nothing() -> None:
    read = logs.read

    async def untagged(*asked: Any, **options: Any) -> Any:
        return msgspec.structs.replace(await read(*asked, **options), tags={})

    replace(read, untagged)
