"""What was read off a log about the calls of a run, until the code asks for them."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from perdure.core.calls import Call, Failure, Identity, Intent, Outcome
from perdure.core.pauses import Opened
from perdure.core.runs import Ended


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the log has of a call."""

    outcome: Outcome | None = None
    failure: Failure | None = None  # the run went on after it
    intent: Intent | None = None  # a tool that was started, and nothing more
    attempt: int = 0  # the newest that was told of


NOTHING = Recorded()


def recorded(outcome: Outcome) -> Recorded:
    """A call that came to its end."""
    return Recorded(outcome=outcome, attempt=outcome.attempt)


class Records:
    """The newest of each call, given once; what is inside a step that is under way, as often as it is tried."""

    def __init__(self) -> None:
        self._newest: dict[Identity, Outcome | Failure | Intent] = {}
        self._failures: dict[Identity, Failure] = {}  # that the code went on after
        self._doubtful: dict[Identity, Failure] = {}  # … and that it made no call after, so far
        self._places: dict[tuple[bytes, int], Call] = {}  # calls that were made in sequence, by their place
        self._inside: dict[bytes, dict[Identity, Recorded]] = {}  # of steps under way: a new attempt asks for it again

    def take(self, call: Call, *, whole: bool) -> Recorded | None:
        """What is known of a call. Unless the `whole` log was read, only its end is sure: what comes may say more."""
        same = call.identity
        found = self._inside[call.parent].get(same) if call.parent in self._inside else None
        if found is None and (whole or isinstance(self._newest.get(same), Outcome)):
            found = self._taken(same)
        return self.kept(call, found) if found is not None else None

    def knows(self, call: Call) -> bool:
        """Whether anything was told of a call so far."""
        return call.identity in self._newest

    def _taken(self, same: Identity) -> Recorded | None:
        newest = self._newest.pop(same, None)
        if newest is None:
            return None
        self._places.pop((newest.call.parent, newest.call.at), None)
        if isinstance(newest, Outcome):
            return recorded(newest)
        intent = newest if isinstance(newest, Intent) else None
        return Recorded(failure=self._failures.pop(same, None), intent=intent, attempt=newest.attempt)

    def kept(self, call: Call, found: Recorded) -> Recorded:
        """The same, kept where a step that is tried again may ask for it."""
        self.keep(call, found)
        return found

    def keep(self, call: Call, found: Recorded) -> None:
        """A step that is tried again asks for what is inside it again; a failure in there is not final then."""
        if call.parent:
            self._inside.setdefault(call.parent, {})[call.identity] = replace(found, failure=None)

    def forget_inside(self, call_id: bytes) -> None:
        """A call is recorded: nobody asks for what is inside it."""
        self._inside.pop(call_id, None)

    def expected(self, call: Call) -> Call | None:
        """The call that the log has at this place, where the code follows the log step by step."""
        other = self._places.get((call.parent, call.at)) if call.in_sequence else None
        return other if other is not None and other.run == call.run else None

    def note(self, record: Outcome | Intent) -> None:
        """A call came to its end, or a tool was started."""
        call = record.call
        same = call.identity
        if self._failures or self._doubtful:
            self._went_on(call)
            self._failures.pop(same, None)
            self._doubtful.pop(same, None)
        self._newest[same] = record
        if call.in_sequence:
            self._places[call.parent, call.at] = call

    def note_failure(self, failure: Failure) -> None:
        """A call failed."""
        same = failure.call.identity
        self._went_on(failure.call)
        self._newest[same] = failure
        if not failure.again:
            self._doubtful[same] = failure

    def note_pause(self, opened: Opened) -> None:
        """Code that does not ask any more what it asked must not go past that question."""
        call = opened.call
        self._went_on(call)
        if call.in_sequence and opened.is_by_code:
            self._places[call.parent, call.at] = call

    def note_break(self, ended: Ended | None) -> None:
        """The code stopped there. A failure that stopped it is not final, whatever was done about it in between."""
        self._doubtful.clear()
        for same, failed in list(self._failures.items()):
            if ended and ended.is_by(failed.error, failed.text):
                del self._failures[same]
                self._places = {at: call for at, call in self._places.items() if not failed.is_before(call)}

    def _went_on(self, call: Call) -> None:
        """A call that was made after a failure beside it: the code handled that one."""
        for same, failed in list(self._doubtful.items()):
            if failed.is_before(call):
                self._failures[same] = self._doubtful.pop(same)
