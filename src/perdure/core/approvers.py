"""Who may decide about a pause: people, groups, and who must not.

`who=` takes names of people, `group:NAME` for everybody in a group, and `not:NAME` or `not:group:NAME` for those who
must not decide. `not:starter` stands for the person who started the run; their name takes its place when the pause is
opened. Where `who=` names only people who must not decide, everybody else may.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_id

MOST_APPROVALS = 100
GROUP, NOT = "group:", "not:"
NOT_THE_STARTER = "not:starter"


class Approver(msgspec.Struct, frozen=True):
    """Somebody who decides, and the groups they are in."""

    name: str
    groups: tuple[str, ...] = ()

    def may(self, who: Iterable[str]) -> bool:
        """Whether they may decide about a pause that is addressed so."""
        return may_decide(who, self.name, self.groups)


def approver_of(name: object, groups: Iterable[object] = (), what: str = "by") -> Approver:
    """The approver whom a caller names; raise `InvalidInputError` for a name that reads as a rule of `who=`."""
    return Approver(check_approver(name, what), check_groups(groups))


def check_who(who: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return whom a pause is addressed to; empty is everybody."""
    if who is None:
        return ()
    named = (who,) if isinstance(who, str) else who
    if not isinstance(named, list | tuple | set | frozenset) or not named:
        # Nobody is not everybody: a list that came out empty by mistake must not let everybody decide.
        raise InvalidInputError(f"who may answer is a name, or a list of names with one at least, not {who!r}")
    for each in named:
        bare = check_id(each, "who may answer").removeprefix(NOT).removeprefix(GROUP)
        if not bare or bare.startswith((GROUP, NOT)):
            raise InvalidInputError(f'who takes "ann", "group:finance", "not:bob" and "not:starter", not {each!r}')
    return tuple(named)


def check_approvals(approvals: object, who: Iterable[str]) -> int:
    """Return how many people have to approve; raise `InvalidInputError` where fewer than those may."""
    if type(approvals) is not int or not 1 <= approvals <= MOST_APPROVALS:
        raise InvalidInputError(f"approvals must be an int from 1 to {MOST_APPROVALS}, not {approvals!r}")
    invited = {same_person(each) for each in who if not each.startswith(NOT)}
    if invited and len(invited) < approvals and not any(each.startswith(GROUP) for each in invited):
        raise InvalidInputError(f"approvals={approvals} needs as many people, and who= names {len(invited)}")
    return approvals


def same_person(name: str) -> str:
    """What two spellings of a name have in common: `Ann` must not be a second approver beside `ann`."""
    return unicodedata.normalize("NFKC", name).strip().casefold()


def check_approver(by: object, what: str = "by") -> str:
    """Return the name of a person; one that reads as a group must not decide for the group."""
    name = check_id(by, what)
    if name.startswith((GROUP, NOT)):
        raise InvalidInputError(f"{what} is the name of a person, and {name!r} reads as a rule of who=")
    return name


def check_groups(groups: Iterable[object]) -> tuple[str, ...]:
    """Return names of groups, given without `group:`."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"groups must be a list of names, not {groups!r}")
    return tuple(check_approver(each, "a group") for each in groups)


def with_starter(who: tuple[str, ...], starters: Iterable[str | None]) -> tuple[str, ...]:
    """Put the people who started a run in the place of `not:starter`.

    Raises `InvalidInputError` where nobody knows who that was: the rule would hold nobody back.
    """
    if NOT_THE_STARTER not in who:
        return who
    names = [NOT + name for name in dict.fromkeys(starters) if name]
    if not names:
        raise InvalidInputError(
            'who="not:starter" needs to know who started the run: give the thread a user, or start the run through '
            "store.thread(…, actor=…)"
        )
    return (*(each for each in who if each != NOT_THE_STARTER), *names)


def may_decide(who: Iterable[str], by: str, groups: Iterable[str] = ()) -> bool:
    """Whether a person may decide about a pause that is addressed so."""
    names = {by, *(GROUP + group for group in groups)}
    barred = {each.removeprefix(NOT) for each in who if each.startswith(NOT)}
    invited = {each for each in who if not each.startswith(NOT)}
    return not names & barred and (not invited or bool(names & invited))


def only_approver(who: Iterable[str]) -> str | None:
    """The one person who may decide; None where there are several, a group, or everybody."""
    invited = [each for each in who if not each.startswith(NOT)]
    if len(invited) != 1 or invited[0].startswith(GROUP) or not may_decide(who, invited[0]):
        return None
    return invited[0]
