"""Every error Perdure raises, and what each one means for the caller.

PerdureError
├── InvalidInputError            the call itself is wrong; nothing was written; fix the argument
│   ├── InvalidIdError           an id is empty, too long, not a str, or holds NUL or a lone surrogate
│   ├── InvalidPathError         a path does not fit the state it is used on
│   ├── InvalidRefError          a ref such as @12 or @2h cannot be read
│   ├── InvalidUrlError          a storage address cannot be read
│   ├── InvalidFilterError       a filter or limit of a listing cannot be used
│   ├── InvalidConfigError       a file of settings has mistakes; all are named, each with its place
│   ├── InvalidAnswerError       an answer does not fit what a pause expects; the pause stays open
│   ├── InvalidWebhookError      a receiver of notifications cannot be used; nothing secret of it is shown
│   ├── UnsupportedValueError    a value cannot be kept losslessly; its path and the remedy are named
│   │   ├── CyclicValueError     a value contains itself
│   │   └── NestingTooDeepError  a value is nested deeper than the codec allows
│   ├── UnknownTypeError         stored data has a type this process has not registered
│   └── ValueTooLargeError       a value has more bytes or nodes than may be stored and decoded; the limit is named
├── NotFoundError                no such thread, version or checkpoint (or it belongs to another user)
├── QuarantinedError             a quarantined thread runs nothing, and no decision counts, until somebody trusts it
├── ExportUnsignedError          an import with trust=True of a file that no key of this store signed
├── NotAllowedError              this person may not decide about this pause; those who may are named
├── AmbiguousThreadError         several users have a thread of this id, and ANY_USER was asked for; name one
├── ConflictError                somebody else was there first; nothing was written
│   ├── VersionConflictError     the state changed since it was read; load again and redo the change
│   ├── KeyReusedError           this idempotency key was used for a different request
│   ├── ThreadExistsError        a thread of this id exists already
│   ├── PlanOutdatedError        the thread changed since a prune was planned; plan again
│   ├── LeaseHeldError           a run owns the thread; wait for it or cancel it
│   ├── LeaseLostError           another owner took over this run; stop working
│   ├── UserActiveError          threads of a user who is to be forgotten are being run; cancel them, or say force
│   ├── UnfinishedRunError       the thread has a run that is not over; resume or abandon it first
│   └── PauseClosedError         this pause was decided already, or its deadline passed; the first decision is named
├── RunError                     a run could not go on, or did not end well
│   ├── RunDivergedError         the code asks for something else than the log recorded; both are shown
│   ├── PauseChangedError        the code asks something else than a person decided about; the difference is named
│   ├── RunFinishedError         a run that is over is asked for something it never did
│   ├── RunFailedError           a run that was waited for failed, or is dead
│   ├── RunCancelledError        a run that was waited for was cancelled
│   ├── ToolDeniedError          a person did not approve a tool, or nobody did in time; it was not run
│   ├── StepDeniedError          a person denied an approval step of a workflow, or nobody approved it in time
│   ├── ToolMissingError         a tool that a person approved, or that may have run, is not among an agent's tools here
│   ├── HandlerMissingError      no handler of this name is registered here
│   ├── HandlerUnknownError      start(strict=True) of a handler that is not registered here; the nearest name is named
│   ├── ModelError               a model did not answer, or with something that cannot be used
│   │   ├── ModelUnavailableError  it could not be reached, is overloaded or failed; trying again may help
│   │   └── ModelRefusedError    it refused the request; the status says why, trying again gives the same
│   ├── TurnLimitError           an agent did not come to an answer within its turns
│   ├── StepFailedError          a step or tool failed earlier, and the run went on: it fails the same way again
│   └── EffectUnverifiedError    a tool may have run before a crash; policy "fail" does not run it again
├── LinkError                    a signed link cannot be followed; nothing was decided
│   ├── LinkInvalidError         it was changed or cut off on its way, or made with another key
│   └── LinkExpiredError         its time is over
├── WebhookSignatureError        a delivery to a webhook is not from Perdure, or not new; ignore it
├── DamagedError                 stored bytes fail their check; nothing of them was believed
│   ├── EntryDamagedError        an entry of a log
│   ├── CheckpointDamagedError   a point that was asked for; the newest intact one is named
│   ├── BlobDamagedError         a large value kept apart
│   ├── ValueDamagedError        a stored value that cannot be decoded; what it is part of is unknown
│   ├── ExportDamagedError       a file that should be an export; the place in it is named, nothing was imported
│   └── StorageDamagedError      the file or database itself
├── StorageError                 the storage could not do it; the write is not acknowledged
│   ├── StorageUnavailableError  it cannot be reached or opened (also a ConnectionError)
│   ├── StorageBusyError         another process holds its lock for too long; try again
│   ├── StorageFullError         no space is left; free some and try again
│   ├── StorageReadOnlyError     it may not be written by this process
│   ├── StorageIOError           reading, writing or syncing failed; open the storage again before going on
│   ├── BackgroundWriteError     durability="background": writes that were answered could not be made; load again
│   ├── StorageClosedError       it was closed
│   ├── ForkedProcessError       it was opened before os.fork; open one in the child
│   ├── SchemaOutdatedError      it needs a migration that migrate="check" does not run
│   ├── SchemaTooNewError        it was written by a newer release that this one must not touch
│   └── NotAStorageError         there is something else at this address
├── MissingExtraError            an optional part is not installed or too old; the command to install it is named
├── StorageMethodMissingError    a CheckpointStorage of your own lacks a method that is needed; it is named
└── SuspendedError               a synchronous call met code that waits; a defect in a storage port
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.addresses import redact_url

_USERS_NAMED = 10
_LONGEST_REPR = 1000  # characters
SAY_WHOSE = "if somebody owns it, say who: user=…"  # what belongs to others looks absent


def short_repr(value: object) -> str:
    """A caller's value in a message: bounded, and never an error of its own, as the repr of a huge int is."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__} that has no repr"
    return text if len(text) <= _LONGEST_REPR else f"{text[:_LONGEST_REPR]}… ({len(text):,} characters)"


class PerdureError(Exception):
    """The root of every error Perdure raises."""


class InvalidInputError(PerdureError, ValueError):
    """The call itself is wrong; nothing was written."""


class InvalidIdError(InvalidInputError):
    """An id cannot be used."""

    def __init__(self, what: str, reason: str) -> None:
        rule = "use a non-empty str of at most 512 characters without NUL or lone surrogates"
        super().__init__(f"{what} {reason}; {rule}")
        self.what = what
        self.reason = reason


class InvalidPathError(InvalidInputError):
    """A path does not fit the state it is used on."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"path {path!r} {reason}")
        self.path = path
        self.reason = reason


class InvalidRefError(InvalidInputError):
    """A ref cannot be read."""

    def __init__(self, ref: object, reason: str = "") -> None:
        forms = (
            "is not a ref; use @12 (a version), @-1 (the newest), @chk_… (a checkpoint), @tag:name, @2h (ago), "
            "@2026-11-01T12:00Z (a time) or @before-error"
        )
        super().__init__(f"{short_repr(ref)} {reason or forms}")
        self.ref = ref
        self.reason = reason


class InvalidUrlError(InvalidInputError):
    """A storage address cannot be read."""

    def __init__(self, url: str, reason: str) -> None:
        self.url = redact_url(url)  # whoever shows or logs the error must not show a password
        known = "memory://, file:./folder, sqlite:///name.db, postgresql://host/database or mysql://host/database"
        super().__init__(f"storage address {self.url!r}: {reason}; use {known}")
        self.reason = reason


class InvalidFilterError(InvalidInputError):
    """A filter or limit of a listing cannot be used."""


class InvalidConfigError(InvalidInputError):
    """A file of settings has mistakes; each is a line with its place."""

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.path = path
        self.problems = tuple(problems)


class InvalidAnswerError(InvalidInputError):
    """An answer does not fit what a pause expects."""

    def __init__(self, pause: str, why: str) -> None:
        super().__init__(f"pause {pause} was not decided: {why}")
        self.pause = pause
        self.why = why


class InvalidWebhookError(InvalidInputError):
    """A receiver of notifications cannot be used."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"webhook {place}: {reason}")
        self.place = place  # without path, user and password: each may be a secret
        self.reason = reason


class UnsupportedValueError(InvalidInputError, TypeError):
    """A value cannot be kept losslessly."""

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}" + (f"; {remedy}" if remedy else ""))
        self.path = path
        self.reason = reason
        self.remedy = remedy


class CyclicValueError(UnsupportedValueError):
    """A value contains itself."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "this value contains itself", "keep an id instead of the object")


class NestingTooDeepError(UnsupportedValueError):
    """A value is nested deeper than the codec allows."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(path, f"nested more than {limit} levels deep", "flatten it, or keep the deep part as text")
        self.limit = limit


class UnknownTypeError(InvalidInputError):
    """Stored data has a type this process has not registered."""

    def __init__(self, tag: str, version: int) -> None:
        super().__init__(
            f"stored type {tag!r} (version {version}) is not known here; "
            f"call perdure.register(YourClass, tag={tag!r}) before loading"
        )
        self.tag = tag
        self.version = version


class ValueTooLargeError(InvalidInputError):
    """A value has more bytes or nodes than may be stored and decoded."""

    def __init__(self, what: str, size: int | None, limit: int, unit: str, option: str) -> None:
        has = f"{size:,} {unit}, more than the {limit:,}" if size is not None else f"more than the {limit:,} {unit}"
        remedy = f"if it is yours, raise {option} (of open, import_, verify, repair, export), or keep it in pieces"
        super().__init__(f"{what} has {has} that may be decoded; {remedy}")
        self.what = what
        self.size = size
        self.limit = limit
        self.unit = unit
        self.option = option


class NotFoundError(PerdureError, LookupError):
    """There is no such thread, version or checkpoint for this caller."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what} does not exist" + (f"; {advice}" if advice else ""))
        self.what = what


class AmbiguousThreadError(PerdureError, LookupError):
    """Several users have a thread of this id, and `ANY_USER` was asked for."""

    def __init__(self, thread_id: str, users: Sequence[str | int | None] = ()) -> None:
        self.thread_id = thread_id
        self.users = tuple(users)
        nobody = ", without a user it is the one that belongs to nobody" if None in self.users else ""
        super().__init__(f"{self.who}; say whose: user=…{nobody}")

    @property
    def who(self) -> str:
        """The users that have one, as a sentence."""
        named = ", ".join("nobody" if user is None else repr(user) for user in self.users[:_USERS_NAMED])
        more = f" and {len(self.users) - _USERS_NAMED} more" if len(self.users) > _USERS_NAMED else ""
        return f"{len(self.users)} users have a thread {self.thread_id!r}: {named}{more}"


class ConflictError(PerdureError):
    """Somebody else was there first; nothing was written."""


class VersionConflictError(ConflictError):
    """The state changed since the caller read it."""

    def __init__(self, thread_id: str, expected: int, actual: int, told: str | None = None) -> None:
        stands = f"the state is at version {actual}, this write expected {expected}; load it again and redo the change"
        super().__init__(told or f"thread {thread_id!r}: {stands}")
        self.thread_id = thread_id
        self.expected = expected
        self.actual = actual


class KeyReusedError(ConflictError):
    """An idempotency key was used for a different request."""

    def __init__(self, thread_id: str, key: str, version: int) -> None:
        super().__init__(
            f"thread {thread_id!r}: key {key!r} belongs to a different request (version {version}); use a new key"
        )
        self.thread_id = thread_id
        self.key = key
        self.version = version


class ThreadExistsError(ConflictError):
    """A thread of this id exists already."""

    def __init__(self, thread_id: str, reason: str = "choose another id or delete it first") -> None:
        super().__init__(f"thread {thread_id!r} exists already; {reason}")
        self.thread_id = thread_id


class QuarantinedError(PerdureError):
    """A run, a signal or a decision was refused, because the thread is quarantined until somebody trusts it."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is quarantined: it runs nothing and its decisions do not count. "
            f"`perdure trust URL {thread_id}` or store.trust({thread_id!r}, by=…, dry_run=True) shows what trusting it "
            "would set going"
        )
        self.thread_id = thread_id


class ExportUnsignedError(PerdureError):
    """An import with `trust=True` needs a file that a key of this store signed; nothing was imported."""

    def __init__(self, path: str, key: str) -> None:
        signed = f"is signed with key {key}, which this store does not have" if key else "is not signed"
        super().__init__(
            f"{path} {signed}; import it without trust=True, and trust its threads once you have looked at them"
            + ("; or add the key of the store it comes from (`perdure key add URL`)" if key else "")
        )
        self.path = path
        self.key = key


class PlanOutdatedError(ConflictError):
    """A plan would drop what was named since it was made."""

    def __init__(self, thread_id: str, reason: str) -> None:
        super().__init__(f"thread {thread_id!r}: {reason}; nothing was pruned, plan again")
        self.thread_id = thread_id
        self.reason = reason


class LeaseHeldError(ConflictError):
    """A run owns the thread."""

    def __init__(self, thread_id: str, owner: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is being run by {owner}; wait for it, cancel it, or use append, which is allowed"
        )
        self.thread_id = thread_id
        self.owner = owner


class UserActiveError(ConflictError):
    """Threads of a user who is to be forgotten are being run; nothing more was erased."""

    def __init__(self, user: str | int, threads: Sequence[str]) -> None:
        named = ", ".join(map(repr, threads[:_USERS_NAMED]))
        more = f" and {len(threads) - _USERS_NAMED} more" if len(threads) > _USERS_NAMED else ""
        super().__init__(
            f"threads of user {user!r} are being run: {named}{more}; cancel them (store.cancel, `perdure cancel`) or "
            "wait for them and call forget again, or pass force=True (--force): their runs stop at their next write"
        )
        self.user = user
        self.threads = tuple(threads)


class LeaseLostError(ConflictError):
    """Another owner took over this run."""

    def __init__(self, thread_id: str, epoch: int, actual: int) -> None:
        super().__init__(
            f"thread {thread_id!r}: this run holds epoch {epoch}, the thread is at {actual}; "
            "stop, another owner works on it"
        )
        self.thread_id = thread_id
        self.epoch = epoch
        self.actual = actual


class UnfinishedRunError(ConflictError):
    """The thread has a run that is not over."""

    def __init__(self, thread_id: str, run: str, status: str) -> None:
        ways = {
            "input_required": "answer what it asks: store.pauses(thread), store.decide(…)",
            "waiting": "it goes on by itself when its time or its signal comes: store.signal(thread, …)",
        }
        way = ways.get(status, "go on with it: store.resume(thread)")
        super().__init__(
            f"thread {thread_id!r} has an unfinished run {run} ({status}); {way}, or give it up: store.cancel(thread)"
        )
        self.thread_id = thread_id
        self.run = run
        self.status = status


class NotAllowedError(PerdureError):
    """Somebody decides who may not."""

    def __init__(self, pause: str, by: str, who: tuple[str, ...], reason: str = "") -> None:
        invited = " or ".join(each for each in who if not each.startswith("not:")) or "somebody"
        barred = [each.removeprefix("not:") for each in who if each.startswith("not:")]
        other = f" other than {' and '.join(barred)}" if barred else ""
        why = reason or f"it waits for {invited}{other}"
        super().__init__(f"{by} may not decide about pause {pause}; {why}. It stays open")
        self.pause = pause
        self.by = by
        self.who = who


class PauseClosedError(ConflictError):
    """A pause was decided already, or it is too late."""

    def __init__(self, pause: str, by: str | None, approved: bool, at: str) -> None:
        word = "approved" if approved else "denied"
        super().__init__(f"pause {pause} was {word} by {by or 'somebody'} at {at}; a decision stands")
        self.pause = pause
        self.by = by
        self.approved = approved
        self.at = at


class RunError(PerdureError):
    """A run could not go on, or did not end well."""


class RunDivergedError(RunError):
    """The code asks for something else than the log recorded."""

    def __init__(self, run: str, recorded: str, asked: str) -> None:
        super().__init__(
            f"run {run}: the log recorded {recorded} here, the code asks for {asked}; nothing was run. Go on with the "
            'code as it is: store.resume(thread, changed="accept"); look at both on a fork: thread.rerun(…); or leave '
            'the run behind: thread.run(unfinished="abandon")'
        )
        self.run = run
        self.recorded = recorded
        self.asked = asked


class PauseChangedError(RunError):
    """The code asks something else than a person decided about."""

    def __init__(self, pause: str, name: str, differences: list[str]) -> None:
        super().__init__(
            f"pause {name!r} ({pause}): the code changed since somebody was asked: {'; '.join(differences)}. Nothing "
            'was run. Go on with what was decided: store.resume(thread, changed="accept"); or store.cancel(thread) and '
            "start again"
        )
        self.pause = pause
        self.name = name
        self.differences = differences


class ToolDeniedError(RunError):
    """A tool was not approved, and not run."""

    def __init__(self, tool: str, by: str | None, answer: object = None) -> None:
        said = "" if answer is None else f": {answer}"
        super().__init__(f"{tool} was not run: {'denied by ' + by if by else 'nobody approved it in time'}{said}")
        self.tool = tool
        self.by = by
        self.answer = answer


class StepDeniedError(RunError):
    """A step of a workflow was not approved."""

    def __init__(self, step: str, by: str | None, answer: object = None) -> None:
        reason = "" if answer is None else f": {answer}"
        who = f"denied by {by}" if by else "nobody decided in time"
        super().__init__(f"step {step!r} was not approved: {who}{reason}")
        self.step = step
        self.by = by
        self.answer = answer


class RunFinishedError(RunError):
    """A run that is over is asked for something it never did."""

    def __init__(self, run: str, asked: str) -> None:
        super().__init__(f"run {run} is over and never did {asked}; use another key for a new run")
        self.run = run
        self.asked = asked


class RunFailedError(RunError):
    """A run that was waited for failed."""

    def __init__(self, run: str, error: str, text: str) -> None:
        super().__init__(f"run {run} failed: {error}: {text}")
        self.run = run
        self.error = error
        self.text = text


class RunCancelledError(RunError):
    """A run that was waited for was cancelled."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(f"run {run} was cancelled" + (f": {reason}" if reason else ""))
        self.run = run
        self.reason = reason


class HandlerMissingError(RunError, LookupError):
    """No handler of this name is registered here."""

    def __init__(self, name: str | None, thread_id: str) -> None:
        missing = f"no handler {name!r} is registered here" if name else "it was made by a block of code, not a handler"
        advice = f'add @store.handler("{name}")' if name else "enter the block again: thread.run()"
        super().__init__(f"the run of thread {thread_id!r} cannot be resumed: {missing}; {advice}")
        self.name = name
        self.thread_id = thread_id


class HandlerUnknownError(RunError, LookupError):
    """`start(…, strict=True)` was given the name of a handler that is not registered here; nothing was recorded."""

    def __init__(self, name: str, nearest: str | None) -> None:
        super().__init__(f"no handler {name!r} is registered here{_instead(name, nearest)}")
        self.name = name
        self.nearest = nearest


class ToolMissingError(RunError, LookupError):
    """A tool that a person approved, or that may have run, is not among the tools of its agent in this process."""

    def __init__(self, tool: str, agent: str | None, thread_id: str, why: str) -> None:
        super().__init__(
            f"agent {agent!r} has no tool {tool!r} here, and in thread {thread_id!r} it {why}. It was not run, and the "
            f'model was not asked. Add it, store.agent("{agent}", tools=[…, {tool}]), and store.resume(thread); '
            'or store.resume(thread, changed="accept") tells the model that there is no such tool'
        )
        self.tool = tool
        self.agent = agent
        self.thread_id = thread_id


class ModelError(RunError):
    """A model did not answer, or with something that cannot be used."""

    advice = ""

    def __init__(self, model: str, reason: str, status: int | None = None, advice: str = "") -> None:
        remedy = advice or self.advice
        super().__init__(f"{model}: {reason}" + (f"; {remedy}" if remedy else ""))
        self.model = model
        self.reason = reason
        self.status = status  # of HTTP


class ModelUnavailableError(ModelError, ConnectionError):
    """A model could not be reached, is overloaded or failed; trying again may help."""

    advice = "the run is tried again; store.resume(thread) goes on at once"
    retry_after: float | None = None  # seconds, where the server said so


class ModelRefusedError(ModelError):
    """A model refused the request; trying again gives the same."""

    advice = "correct the request, then store.resume(thread)"


class TurnLimitError(RunError):
    """An agent did not come to an answer within its turns."""

    def __init__(self, agent: str, turns: int) -> None:
        super().__init__(
            f"agent {agent!r} did not come to an answer in {turns} turns; look at what it does with store.why(thread), "
            "then raise max_turns and call store.resume(thread), or cancel the run"
        )
        self.agent = agent
        self.turns = turns


class StepFailedError(RunError):
    """A step or tool that failed earlier, read off the log."""

    def __init__(self, name: str, error: str, text: str) -> None:
        super().__init__(f"{name} failed: {error}: {text}")
        self.name = name
        self.error = error
        self.text = text


class EffectUnverifiedError(RunError):
    """A tool may have run before a crash, and is not run again."""

    def __init__(self, name: str, key: str) -> None:
        super().__init__(f"unverified: {name} may have run, key {key}; it was not run again")
        self.name = name
        self.key = key


class LinkError(PerdureError):
    """A signed link cannot be followed; nothing was decided."""


class LinkInvalidError(LinkError):
    """A link was changed or cut off on its way, or made with another key."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this link {reason}; nothing was decided, open it again from the message or ask for a new one"
        )
        self.reason = reason


class LinkExpiredError(LinkError):
    """The time of a link is over."""

    def __init__(self, pause: str, at: str) -> None:
        super().__init__(f"the link to pause {pause} ended at {at}; nothing was decided, ask for a new one")
        self.pause = pause
        self.at = at


class WebhookSignatureError(PerdureError):
    """A delivery to a webhook is not ours, or not a new one."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this delivery is refused: {reason}; check the secret, the clock and that the body is as it came"
        )
        self.reason = reason


class DamagedError(PerdureError):
    """Stored bytes fail their check; nothing of them was believed."""


MISSING = "is missing"  # the reason of an entry that should be there


class EntryDamagedError(DamagedError):
    """An entry of a log fails its check."""

    def __init__(self, thread_id: str, version: int, reason: str, *, intact: int | None = None) -> None:
        advice = f"; version {intact} is intact: load('@{intact}')" if intact is not None else ""
        super().__init__(f"entry {version} of thread {thread_id!r} {reason}{advice}")
        self.thread_id = thread_id
        self.version = version
        self.reason = reason
        self.intact = intact


class CheckpointDamagedError(DamagedError):
    """A point that was asked for fails its check."""

    def __init__(self, checkpoint_id: str, thread_id: str, *, intact: str | None = None) -> None:
        # Whoever names none may not have looked: that there is none would be a guess.
        advice = f"; {intact} is intact: load('@{intact}')" if intact else ""
        super().__init__(f"checkpoint {checkpoint_id} of thread {thread_id!r} fails its digest{advice}")
        self.checkpoint_id = checkpoint_id
        self.thread_id = thread_id
        self.intact = intact


class BlobDamagedError(DamagedError):
    """A large value kept apart fails its check or is gone."""

    def __init__(self, digest: str, reason: str) -> None:
        super().__init__(f"large value {digest[:16]}… {reason}")
        self.digest = digest
        self.reason = reason


class ValueDamagedError(DamagedError):
    """A stored value cannot be decoded."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a stored value {reason}")
        self.reason = reason


class ExportDamagedError(DamagedError):
    """A file that should be an export is not as it was written; nothing was imported."""

    def __init__(self, path: str, place: str, reason: str) -> None:
        super().__init__(f"{path}: {place} {reason}; nothing was imported, export the thread again")
        self.path = path
        self.place = place
        self.reason = reason


class StorageDamagedError(DamagedError):
    """The file or database itself is damaged."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place} is damaged: {reason}; restore it from a backup, or copy out what can still be read")
        self.place = place
        self.reason = reason


class StorageError(PerdureError):
    """The storage could not do it; the write is not acknowledged."""

    advice = ""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" + (f"; {self.advice}" if self.advice else ""))
        self.place = place
        self.reason = reason


class StorageUnavailableError(StorageError, ConnectionError):
    """The storage cannot be reached or opened."""

    advice = "check the address and that the server or folder is there"


class StorageBusyError(StorageError):
    """Another process holds the storage's lock for too long."""

    advice = "try again"


class StorageFullError(StorageError):
    """No space is left."""

    advice = "free some space and try again"


class StorageReadOnlyError(StorageError):
    """This process may not write the storage."""

    advice = "check the owner and the permissions"


class StorageIOError(StorageError):
    """Reading, writing or syncing failed."""

    advice = "the write is not acknowledged; check the disk and open the storage again"


class BackgroundWriteError(StorageError):
    """Acknowledged writes of a thread were lost before they were durable, or stand at other versions."""

    advice = "load the thread again and redo what is missing"

    def __init__(self, thread_id: str, version: int, reason: str, broken: tuple[object, ...] = ()) -> None:
        super().__init__(f"thread {thread_id!r}", reason)
        self.thread_id = thread_id
        self.version = version  # up to here the thread is as was promised
        self.broken = broken  # a line for each thread


class StorageClosedError(StorageError):
    """The storage was closed."""

    advice = "open it again with Perdure.open"


class ForkedProcessError(StorageError):
    """The storage was opened before os.fork."""

    advice = "open a new one in the child process"


class SchemaOutdatedError(StorageError):
    """The storage needs a migration that `migrate="check"` does not run."""

    advice = 'open it once with migrate="auto", or run what `perdure schema` prints'


class SchemaTooNewError(StorageError):
    """A newer release wrote the storage, and this one must not touch it."""

    advice = "upgrade perdure"


class NotAStorageError(StorageError):
    """There is something else at this address."""

    advice = "choose another address"


class MissingExtraError(PerdureError, ImportError):
    """An optional part is not installed, or is too old.

    `package`, `installed` and `oldest` name the one that is too old, its release, and the oldest that works; they are
    empty if nothing is installed.
    """

    def __init__(self, what: str, extra: str, *, package: str = "", installed: str = "", oldest: str = "") -> None:
        told = f"{what} needs an optional part: pip install 'perdure[{extra}]'"
        if package:
            told = f"{what} needs {package} {oldest} or newer, but {installed} is installed: "
            told += f"pip install -U 'perdure[{extra}]'"
        super().__init__(told)
        self.extra = extra
        self.package = package
        self.installed = installed
        self.oldest = oldest


class StorageMethodMissingError(PerdureError, NotImplementedError):
    """A storage that somebody wrote lacks a method that is needed now."""

    def __init__(self, storage: str, method: str) -> None:
        super().__init__(f"{storage} cannot do that; add `{method}` to it")
        self.storage = storage
        self.method = method


class SuspendedError(PerdureError):
    """A synchronous call met code that waits."""

    def __init__(self, place: str) -> None:
        super().__init__(f"a synchronous call was suspended at {place}; a port used by perdure.sync must never wait")
        self.place = place


class UnknownHandlerWarning(UserWarning):
    """A run was started whose handler this process does not register, although it registers others."""

    def __init__(self, name: str, nearest: str | None) -> None:
        super().__init__(
            f"a run of {name!r} was started, and no handler {name!r} is registered here: it waits for a process that "
            f"registers one{_instead(name, nearest)}"
        )
        self.name = name
        self.nearest = nearest


def _instead(name: str, nearest: str | None) -> str:
    return f'; add @store.handler("{name}")' if nearest is None else f"; did you mean {nearest!r}?"


class PausesExpireWarning(UserWarning):
    """A file of settings lets pauses expire, which they do not by default."""
