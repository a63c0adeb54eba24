"""Looking after questions: those that nobody answered in time are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.core.pauses import Opened
from perdure.core.runs import PAUSED
from perdure.core.threads import ThreadRow

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime


class Attending:
    """Does what is due about the questions of a thread, without running it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def first_look(self, opened: Opened) -> int | None:
        """When somebody has to look at a question that was just asked."""
        return opened.deadline or None

    async def attend(self, row: ThreadRow) -> bool:
        """Do what is due; say whether the thread is due for something else, so that its run has to go on."""
        from perdure.runtime.answering import Answers
        from perdure.runtime.questions import open_questions

        if row.status != PAUSED:
            return False
        now, found = self._runtime.clock.now(), await open_questions(self._runtime.storage, row)
        expired = [each.opened for each in found if each.opened.is_expired(now)]
        for opened in expired:
            await Answers(self._runtime).expire(row, opened)
        return not expired
