"""Looking after questions: people are told of them, and those that nobody answered in time are closed.

The log is the list of what is to be sent: a question that stands in it and has no `pause.notified` is sent by whoever
asked it, and when that one is gone by whoever serves the store: at least once, and never before it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from perdure.checkpoints.requests import Request
from perdure.core.approvers import only_approver
from perdure.core.calls import shown
from perdure.core.deliveries import Sent, wait_after
from perdure.core.entries import EntryKind
from perdure.core.errors import KeyReusedError, PerdureError
from perdure.core.identity import ThreadKey
from perdure.core.pauses import Notified, notified_key
from perdure.core.payload import encode_body
from perdure.core.reminders import OPENED, Telling, newest_telling, next_telling
from perdure.core.runs import PAUSED
from perdure.core.threads import ThreadPatch, ThreadRow, is_due
from perdure.core.webhooks import Webhook
from perdure.runtime.decisions import Pause, pause_of
from perdure.runtime.leases import SECOND
from perdure.runtime.questions import Question, Told, open_questions

if TYPE_CHECKING:
    from perdure.runtime.run import Run
    from perdure.runtime.runtime import Runtime
    from perdure.runtime.sending import Sender

GRACE = 15.0  # seconds that whoever asked has to tell people, before others do
UNTOLD = 253_370_764_800_000_000  # the year 9999: the timer by which a question is found that nobody was told of
_LINKED = 7 * 24 * 3600.0  # seconds that a link in a notice works
_TEXT = 500  # characters of a reason that are kept


class Attending:
    """Does what is due about the questions of a thread, without running it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._sender: Sender | None = None

    async def next_look(self, run: Run) -> int | None:
        """When somebody has to look at the questions of a run that lets go."""
        if not run.questions:
            return None
        if not self._runtime.webhooks:  # reminders are for those who have somebody to tell
            return min((each.deadline for each in run.questions if each.deadline), default=UNTOLD)
        row = await self._runtime.storage.thread(run.journal.key)
        return None if row is None else self._look_at(await open_questions(self._runtime.storage, row), GRACE)

    def asked(self, key: ThreadKey) -> None:
        """A question stands: tell people, beside the run."""
        if self._runtime.webhooks:
            self._runtime.work.beside(lambda: self._until_told(key))

    async def attend(self, row: ThreadRow, *, eager: bool = False, untold: bool = False) -> bool:
        """Do what is due; say whether the thread is due for something else, so that its run has to go on.

        Who is `eager` does not wait until an attempt that failed is due again; who looks for `untold` questions leaves
        those that somebody was told of: a receiver that is new, or has a new template, is not told of all old ones.
        """
        from perdure.runtime.answering import Answers

        now, found = self._runtime.clock.now(), await open_questions(self._runtime.storage, row)
        expired = [each.opened for each in found if each.opened.is_expired(now)]
        for opened in expired:
            await Answers(self._runtime).expire(row, opened)
        left = [each for each in found if each.opened not in expired and not (untold and each.told)]
        told = await self._tell(row, left, eager=eager)
        return not expired and not told and is_due(row, now)

    async def _until_told(self, key: ThreadKey) -> None:
        """Try a round of attempts; the next one is due later, for whoever serves then."""
        for _ in range(max(hook.attempts for hook in self._runtime.webhooks)):
            row = await self._runtime.storage.thread(key)
            if row is None or row.is_quarantined or (row.status != PAUSED and not row.lease_owner):
                return
            found = await open_questions(self._runtime.storage, row)
            await self._tell(row, found, grace=GRACE)
            wait = (self._next_try(found) - self._runtime.clock.now()) / SECOND
            if not 0 <= wait <= max(hook.longest_wait for hook in self._runtime.webhooks):
                return
            await self._runtime.work.pause(wait)

    async def _tell(self, row: ThreadRow, found: list[Question], *, eager: bool = False, grace: float = 0.0) -> bool:
        """Make the attempts that are due, record each in `found` and in the log; say whether there were any."""
        made = False
        for at, question in enumerate(found):
            for hook in self._runtime.webhooks:
                due = self._due_at(question, hook)
                if due is None or (not eager and due > self._runtime.clock.now()):
                    continue
                found[at] = question = await self._attempt(row, question, hook)
                await self._record(row, question, self._look_at(found, grace))
                made = True
        return made

    async def _attempt(self, row: ThreadRow, question: Question, hook: Webhook) -> Question:
        from perdure.runtime.sending import notice_of

        telling, hook_key = self._telling(question), self._hook_key(question, hook)
        before = question.told.get(hook_key)
        pause = pause_of(
            row.key.id, row.key.user or None, question.entry, question.opened, id=question.id_in(row),
            now=self._runtime.clock.now(),
        )  # fmt: skip
        notice = notice_of(pause, link=await self._link(hook, pause), telling=telling)
        sent = await self._send(hook, notice)
        attempt = before.notified.attempt + 1 if before else 1
        done = Notified(
            question.opened.pause, hook_key, attempt, bool(sent), sent.outcome != "retry", sent.reason[:_TEXT],
            sent.asked or 0.0,
        )  # fmt: skip
        told = {key: each for key, each in question.told.items() if key != hook_key}
        return replace(question, told={**told, hook_key: Told(self._runtime.clock.now(), done)})

    async def _link(self, hook: Webhook, pause: Pause) -> str | None:
        """The address with which whoever is told decides: in the name of the one who may, or of the receiver."""
        by = only_approver(pause.who) if pause.who else hook.host
        if hook.link is None or by is None:
            return None
        from perdure.core.links import make
        from perdure.runtime.linking import key_of_links

        until = self._runtime.in_seconds(_LINKED)
        token = make(await key_of_links(self._runtime), pause.id, pause.version, until, by)
        return hook.link.replace("{token}", token)

    async def _send(self, hook: Webhook, notice: object) -> Sent:
        if self._sender is None:
            from perdure.runtime.sending import Sender

            self._sender = Sender()
        sender, now, work = self._sender, self._runtime.clock.now(), self._runtime.work
        send = sender.send_now if work.in_place else sender.send
        return await work.call(lambda: send(hook, notice, now=now), None)  # type: ignore[arg-type]

    async def _record(self, row: ThreadRow, question: Question, look_at: int | None) -> None:
        """The attempt, and when to look again: unless somebody decided meanwhile."""
        done, engine = list(question.told.values())[-1].notified, self._runtime.engine
        entry = engine.entry(EntryKind.PAUSE_NOTIFIED, encode_body(done), None)
        key = notified_key(shown(question.opened.call.id), done.hook, done.attempt)
        patch = ThreadPatch(wake_at=look_at or 0, if_status=PAUSED)
        try:
            await engine.speak(row.key, [entry], Request(key=key, uid=row.uid, patch=patch))
        except KeyReusedError:
            return  # another one tried at the same moment
        except PerdureError as exc:  # it is sent once more then
            self._runtime.telemetry.log("warning", "a notification is not recorded", thread=row.key.id, error=str(exc))

    def _due_at(self, question: Question, hook: Webhook) -> int | None:
        """When to tell a receiver of a question; None when nothing is left to do."""
        last = question.told.get(self._hook_key(question, hook))
        if last is None:
            return question.entry.micros + self._telling(question).age
        if last.notified.over:
            return None
        return last.micros + int(wait_after(hook, last.notified.attempt, last.notified.asked) * SECOND)

    def _age(self, question: Question) -> int:
        return max(0, self._runtime.clock.now() - question.entry.micros)

    def _telling(self, question: Question) -> Telling:
        return newest_telling(question.opened.reminders, self._age(question))

    def _hook_key(self, question: Question, hook: Webhook) -> str:
        """What the attempts of a receiver are counted by: each occasion to tell it has its own."""
        telling = self._telling(question)
        return hook_id(hook) if telling.event == OPENED else f"{hook_id(hook)}.{telling.event}.{telling.nth}"

    def _next_try(self, found: Iterable[Question]) -> int:
        tries = [self._due_at(question, hook) for question in found for hook in self._runtime.webhooks]
        return min((each for each in tries if each is not None), default=-1)

    def _look_at(self, found: Iterable[Question], grace: float) -> int | None:
        """When somebody has to look at these questions again."""
        questions = list(found)
        times = [each.opened.deadline for each in questions if each.opened.deadline]
        first = self._next_try(questions)
        ages = [(each, next_telling(each.opened.reminders, self._age(each))) for each in questions]
        times += [each.entry.micros + age for each, age in ages if age is not None]
        times += [max(first, self._runtime.clock.now()) + int(grace * SECOND)] if first >= 0 else []
        return min(times, default=None)


def hook_id(hook: Webhook) -> str:
    """What a receiver is called in the log: its address may hold a secret."""
    told = encode_body([hook.url, hook.template, hook.link])  # one address may be told in several ways
    return sha256(told).hexdigest()[:12]
