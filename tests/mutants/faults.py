"""The faults: each breaks one promise, and names the tests that have to notice."""

from __future__ import annotations

from typing import NamedTuple

from tests.contract.backends import BACKENDS
from tests.mutants import core_rules, prunes, storages
from tests.mutants.one_statement import ANY_HEAD, ON_TOLD_LINES, any_time
from tests.mutants.planting import Plant

CONTRACT = "tests/contract/test_contract.py"
DAMAGE = "tests/contract/test_damage.py"
CONTINUING = "tests/storage/test_sqlite_continuing.py"
MYSQL = "tests/storage/test_mysql.py"
POSTGRES_TIME = "tests/storage/test_postgres_time.py"
DURABLE = "tests/contract/test_durable.py"
ANSWERS = "tests/crash/test_lost_answers.py"
POWER = "tests/storage/test_file_power_loss.py"
SEAMS = "tests/core/test_seams.py"
CUTS = "tests/core/test_cuts.py"
FORKS = "tests/core/test_forks.py"
FOLLOWING = "tests/core/test_following.py"
PRUNING = "tests/core/test_pruning.py"
PRUNED_THREADS = "tests/checkpoints/test_pruning.py"
TRAVEL = "tests/checkpoints/test_travel.py"


class Fault(NamedTuple):
    """What is broken, and where that has to be noticed."""

    plant: Plant
    tests: str  # words of test names, as pytest's -k takes them
    where: str = CONTRACT


STALE = "stale or expect"
KEYS = "key"
RETRY = "retry or oneself or landed"
ORDER = "newest_first or paging"
OWNER = "another_user or owner_only or names_no_user"
FUTURE = "restored_from or before_every or exactly_that"

# In the rules that all storages share.
IN_CORE: dict[str, Fault] = {
    "request comparison dropped": Fault(core_rules.no_request_comparison, "another_request"),
    "uid check dropped": Fault(core_rules.no_uid_check, "made_again_by_another"),
    "expected check dropped": Fault(core_rules.no_expected_check, STALE),
    "epoch check dropped": Fault(core_rules.no_epoch_check, "late_writer or writes_no_more"),
    "lease-held check dropped": Fault(core_rules.no_lease_held_check, "waits_for_the_run or held_back"),
    "checks in another order": Fault(core_rules.lease_before_thread, "noticed_before"),
    "times go back": Fault(core_rules.times_go_back, "times_never or forks_time"),
    "epochs stand still": Fault(core_rules.epochs_stand_still, "epoch"),
    "a write renews nothing": Fault(core_rules.a_write_renews_nothing, "renews_the_lease"),
    "chain not computed": Fault(core_rules.no_chain, "chain_digest"),
    "chain check dropped": Fault(core_rules.no_chain_check, "", DAMAGE),
    "payload digest check dropped": Fault(core_rules.no_payload_check, "", DAMAGE),
    "copies not checked": Fault(core_rules.copies_are_not_checked, "damaged_copy"),
    "copies of other threads taken": Fault(core_rules.any_thread_is_brought_up, "own_way or key_that_is_taken"),
    "keys twice in a past": Fault(core_rules.keys_are_twice_in_a_past, "keys_of_the_past"),
    "metadata filter dropped": Fault(core_rules.metadata_is_not_compared, "metadata or missing_key"),
    "metadata types mixed up": Fault(core_rules.metadata_types_are_mixed_up, "exact_type or missing_key"),
    "checkpoint filters dropped": Fault(core_rules.filters_are_ignored, "Filter or matched or window or conditions"),
    "fork bound dropped": Fault(core_rules.forks_see_their_parents_future, "fork"),
    "blob grace dropped": Fault(storages.no_grace, "swept_after_the_grace"),
}
# In one storage.
IN_STORAGES: dict[str, Fault] = {
    "key check dropped: memory": Fault(storages.memory_forgets_keys, f"TestMemory and ({KEYS})"),
    "key check dropped: file": Fault(storages.file_forgets_keys, f"TestFile and ({KEYS})"),
    "write id check dropped: memory": Fault(storages.memory_forgets_retries, f"TestMemory and ({RETRY})"),
    "write id check dropped: file": Fault(storages.file_forgets_retries, f"TestFile and ({RETRY})"),
    "listing reversed: memory": Fault(storages.memory_lists_backwards, f"TestMemory and ({ORDER})"),
    "listing reversed: file": Fault(storages.file_lists_backwards, f"TestFile and ({ORDER})"),
    "user predicate dropped: memory": Fault(storages.memory_shows_everybodys, f"TestMemory and ({OWNER})"),
    "user predicate dropped: file": Fault(storages.file_shows_everybodys, f"TestFile and ({OWNER})"),
    "snapshot bound dropped: memory": Fault(storages.memory_restores_the_future, f"TestMemory and ({FUTURE})"),
    "snapshot bound dropped: file": Fault(storages.file_restores_the_future, f"TestFile and ({FUTURE})"),
    "parents freed too early: memory": Fault(storages.memory_frees_parents_at_once, "TestMemory and outlives"),
    "sync dropped: file": Fault(storages.file_is_not_synced, "", POWER),
    "another head is moved: known line of sqlite": Fault(
        storages.known_line_is_any_line("head", "head_digest"), "", CONTINUING
    ),
    "another head is moved: known line and time": Fault(ANY_HEAD, "restored", POSTGRES_TIME),
    "any time is taken: known line and time": Fault(any_time, "clock_jumps", POSTGRES_TIME),
    "another head is moved: known line of mysql": Fault(
        storages.known_line_is_any_line_of_mysql("head", "head_digest"),
        "moved_is_read_again or reaches_the_server",
        MYSQL,
    ),
    "time goes back: known line of mysql": Fault(
        storages.known_line_is_any_line_of_mysql("updated_at"), "never_goes_back", MYSQL
    ),
    "any time is taken: known line of mysql": Fault(storages.known_time_is_not_checked_of_mysql, "clock_jumps", MYSQL),
    "sync dropped: sqlite": Fault(storages.sqlite_is_not_synced, "", DURABLE),
    "lost answers are failures: postgres": Fault(storages.postgres_takes_lost_answers_for_failures, "once", ANSWERS),
    "what landed is not looked for: postgres": Fault(storages.postgres_never_looks_for_what_landed, "once", ANSWERS),
}
# In what the databases share.
IN_SQL: dict[str, tuple[Plant, str]] = {
    "key check dropped": (storages.sql_forgets_keys, KEYS),
    "write id check dropped": (storages.sql_forgets_retries, RETRY),
    "listing reversed": (storages.sql_lists_backwards, ORDER),
    "user predicate dropped from lists": (storages.sql_lists_everybodys, OWNER),
    "user predicate dropped from finding": (storages.sql_finds_everybodys, OWNER),
    "snapshot bound dropped": (storages.sql_restores_the_future, FUTURE),
    "parents freed too early": (storages.sql_frees_parents_at_once, "outlives"),
}
# In the save of somebody who saw the line last, on SQLite. What changes together is left out together.
ON_KNOWN_SQLITE_LINES: dict[str, tuple[Plant, str]] = {
    "a late run writes": (storages.known_line_is_any_line("epoch", "lease_owner", "lease_until"), "late_writer"),
    "a run that gave up writes": (storages.known_line_is_any_line("lease_owner", "lease_until"), "late_writer"),
    "the lease is cut short": (storages.known_line_is_any_line("lease_until"), "cut_short"),
    "the lease is not renewed": (storages.known_lease_is_not_renewed, "renews_the_lease"),
    "the minute is not moved": (storages.known_minute_is_not_moved, "first_in_the_directory"),
    "an entry without a head stays": (storages.known_entry_is_not_taken_back, "cut_short"),
}
# The same on MariaDB.
ON_KNOWN_MYSQL_LINES: dict[str, tuple[Plant, str]] = {
    "a deleted line is moved": (storages.known_line_may_be_deleted_of_mysql, "forks_still_need"),
    "a late run writes": (
        storages.known_line_is_any_line_of_mysql("epoch", "lease_owner", "lease_until"),
        "late_writer or behind_the_next_claim",
    ),
    "a run that gave up writes": (
        storages.known_line_is_any_line_of_mysql("lease_owner", "lease_until"),
        "late_writer",
    ),
    "the lease is cut short": (storages.known_line_is_any_line_of_mysql("lease_until"), "cut_short"),
    "an entry without a head stays": (storages.known_entry_has_a_place_of_mysql, "cut_short or stale"),
    "the lease is not renewed": (storages.known_columns_stay_of_mysql("lease_until"), "renews_the_lease"),
    "the state stands still": (storages.known_columns_stay_of_mysql("head_state_version"), "moves_by_one_version"),
    "the checkpoint stands still": (storages.known_columns_stay_of_mysql("last_checkpoint"), "follow_each_other"),
}
# In the rules of rewinds and prunes.
IN_SEAMS: dict[str, Fault] = {
    "forks not needed": Fault(prunes.no_fork_is_looked_for, "", FORKS),
    "forks of forks not needed": Fault(prunes.forks_of_forks_are_not_looked_for, "", FORKS),
    "rewinds of forks not needed": Fault(prunes.where_forks_went_back_to_is_forgotten, "", FORKS),
    "forks of forks unbounded": Fault(prunes.a_fork_of_a_fork_needs_what_it_began_at, "", FORKS),
    "named points not looked at": Fault(prunes.named_points_make_no_plan_outdated, "", PRUNING),
    "redo not told from rewind": Fault(prunes.a_redo_is_a_rewind_like_any_other, "", SEAMS),
    "redo not told from rewind: threads": Fault(prunes.a_redo_is_a_rewind_like_any_other, "memory and async", TRAVEL),
    "kept points cut away": Fault(prunes.kept_points_are_cut_away, "", CUTS),
    "kept points cut away: threads": Fault(prunes.kept_points_are_cut_away, "memory and async", PRUNED_THREADS),
    "base for a fork": Fault(prunes.a_fork_gets_a_base, "", CUTS),
    "cut where nothing is dropped": Fault(prunes.ranges_without_dropped_points_are_cut, "", CUTS),
    "key order lost": Fault(prunes.keys_set_again_keep_their_old_place, "", PRUNING),
    "rewinds take nothing back": Fault(prunes.a_rewind_takes_nothing_back_that_was_said, "", FOLLOWING),
    "lost messages not kept": Fault(prunes.lost_messages_are_not_kept, "", FOLLOWING),
    "messages always dropped": Fault(prunes.messages_always_go, "memory and async", PRUNED_THREADS),
    "pauses hold nothing": Fault(prunes.pauses_hold_nothing, "memory and async", PRUNED_THREADS),
    "tags hold nothing": Fault(prunes.tags_hold_nothing, "memory and async", PRUNED_THREADS),
}
# In how a plan is carried out: on each storage.
IN_PRUNES: dict[str, tuple[Plant, str]] = {
    "payloads stay": (prunes.nothing_is_blanked, "empties_exactly"),
    "messages emptied too": (prunes.messages_are_blanked_too, "empties_exactly"),
    "named entries not emptied": (prunes.named_entries_keep_their_payload, "empties_exactly"),
    "checkpoints stay": (prunes.checkpoints_stay, "that_are_named_go"),
    "snapshots stay inside ranges": (prunes.whole_states_stay_inside_ranges, "inside_a_range_go"),
    "snapshots after ranges go": (prunes.whole_states_after_a_range_go_too, "inside_a_range_go"),
    "older records stay": (prunes.older_records_stay, "place_of_older_records"),
    "base a version early": (prunes.a_base_is_put_a_version_early, "folds_as_before"),
    "forks ignored by prunes": (prunes.no_fork_is_looked_for, "plan_that_drops or forks_of_forks"),
    "forks of forks ignored by prunes": (prunes.forks_of_forks_are_not_looked_for, "forks_of_forks or went_back"),
    "rewinds of forks ignored by prunes": (prunes.where_forks_went_back_to_is_forgotten, "went_back"),
    "plans not checked": (prunes.plans_are_never_outdated, "plan_older or plan_that_drops"),
    "gone versions forked": (prunes.gone_versions_can_be_forked, "gone_cannot_be_forked"),
    "large values never let go": (prunes.large_values_are_never_let_go, "any_more_are_swept or grace_only"),
    "large values let go too early": (prunes.large_values_are_let_go_though_others_wrote, "written_since"),
}
PRUNED_ON = ("memory", "file", "sqlite")
DATABASES = [name for name in ("sqlite", "postgres", "mysql") if name in BACKENDS]
SERVERS = [name for name in DATABASES if name != "sqlite"]


def _on(database: str, plant: Plant, words: str) -> Fault:
    return Fault(plant, f"Test{database.capitalize()} and ({words})")


FAULTS: dict[str, Fault] = {
    **IN_CORE,
    **IN_STORAGES,
    **{f"{name}: {each}": _on(each, *fault) for name, fault in IN_SQL.items() for each in DATABASES},
    **{
        f"{name}: {each}": _on(each, fault.plant, fault.tests)
        for name, fault in IN_CORE.items()
        for each in SERVERS
        if fault.where == CONTRACT
    },
    **IN_SEAMS,
    **{f"{name}: {each}": _on(each, *fault) for name, fault in IN_PRUNES.items() for each in PRUNED_ON},
    **{
        f"values of records not held: {each}": _on(each, prunes.values_of_records_are_not_held, "records_refer_to")
        for each in ("memory", "sqlite")
    },
    **{f"{name}: known line of sqlite": _on("sqlite", *fault) for name, fault in ON_KNOWN_SQLITE_LINES.items()},
    **{f"{name}: known line of mysql": _on("mysql", *fault) for name, fault in ON_KNOWN_MYSQL_LINES.items()},
    **{f"{name}: known line and time": _on("postgres", *fault) for name, fault in ON_TOLD_LINES.items()},
}
