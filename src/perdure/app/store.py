"""The Perdure object: an open store of threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, overload

from perdure.app.naming import check_tags
from perdure.app.opening import parse
from perdure.app.options import given
from perdure.app.parts import Parts
from perdure.app.running import Running
from perdure.app.thread import Thread
from perdure.app.users import UserArg, UserId
from perdure.core.errors import BackgroundWriteError, InvalidIdError, InvalidInputError, SuspendedError
from perdure.core.identity import ANY_USER, FROM_FILE, FromFile, ThreadKey, check_id, check_label, check_namespace
from perdure.core.threads import NO_PATCH, ThreadPatch

# What only some stores are asked for is imported when they are: a program that saves and loads does not wait for it.
if TYPE_CHECKING:
    from perdure.app.agent import Agent
    from perdure.app.copying import Copied
    from perdure.app.erasure import Progress as ForgetProgress
    from perdure.app.exporting import Exported
    from perdure.app.maintenance import Progress, PruneReport
    from perdure.app.options import StorageOptions
    from perdure.app.restoration import Restoration
    from perdure.app.scope import ApproverScope, UserScope
    from perdure.app.servers import Mode
    from perdure.app.sql_views import Progress as ViewsProgress
    from perdure.app.sql_views import ViewsReport
    from perdure.checkpoints.repairing import Progress as RepairProgress
    from perdure.checkpoints.repairing import Repaired
    from perdure.checkpoints.verifying import Progress as VerifyProgress
    from perdure.core.approvals import Approvals
    from perdure.core.comparison import Comparison, Comparisons
    from perdure.core.erasure import Forgotten, Tombstone
    from perdure.core.policies import Policies
    from perdure.core.ports import Clock, Randomness, Telemetry
    from perdure.core.recovery_policy import RecoveryPolicy
    from perdure.core.retention_policy import Retention
    from perdure.core.subclasses import Subclasses
    from perdure.core.triggers import Triggers
    from perdure.core.trust_preview import TrustPreview
    from perdure.core.verification import Damage, Report
    from perdure.core.webhooks import Webhook
    from perdure.core.weights import StoreSizes
    from perdure.memory.agents import AgentMemory, Recall
    from perdure.memory.manager import MemoryManager
    from perdure.runtime.agents.defaults import AgentDefaults
    from perdure.runtime.agents.model import Model
    from perdure.runtime.agents.nested import Askable
    from perdure.runtime.options import Retry
    from perdure.storage.baton import Baton
    from perdure.storage.contract import Migrate, Storage

CACHE_BYTES = 64 * 1024 * 1024


class Perdure(Running):
    """An open store. Use it as an async context manager, or call `close`."""

    def __init__(self, parts: Parts, namespace: str) -> None:
        super().__init__(parts, namespace)
        # Tied to the parts and not to this object: a handle on a thread keeps its store open.
        self._finalizer = weakref.finalize(parts, _close_forgotten, parts.storage)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        namespace: str = "",
        migrate: Migrate = "auto",
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        telemetry: Telemetry | None = None,
        cache_bytes: int = CACHE_BYTES,
        retention: Retention | None = None,
        checkpoints: Triggers | None = None,
        recovery: RecoveryPolicy | None = None,
        approvals: Approvals | None = None,
        webhooks: Sequence[Webhook] = (),
        subclasses: Subclasses = "refuse",
        agent: AgentDefaults | None = None,
        **options: Unpack[StorageOptions],
    ) -> Self:
        """Open the store at `url`; it is reached at the first use.

        `namespace` keeps tenants apart. By `retention` the threads of the namespace are pruned when the store
        is entered, and each now and then after a checkpoint was acknowledged; without one nothing ever is.
        `migrate="check"` refuses to change an old layout. `cache_bytes` bounds the encoded states that are kept in
        memory so that a save costs what changed. A `clock` of your own counts instead of the server's. By `checkpoints`
        runs save points by themselves, `recovery` says what goes on after a restart, `approvals` which tools a person
        is asked about, `webhooks` who is told, `agent` what agents are given that name no model. Objects of subclasses
        of `str`, `dict` and other plain types that are not registered are refused, or with `subclasses="plain"` kept
        without their class. Servers and the hot layer have `options` of their own: see the guides.
        """
        return cls.open_as(
            "async", url, namespace=namespace, migrate=migrate, clock=clock, randomness=randomness,
            telemetry=telemetry, cache_bytes=cache_bytes, options=options, retention=retention,
            policies=policies_given(checkpoints, recovery, approvals, webhooks), subclasses=subclasses,
            agent=agent,
        )  # fmt: skip

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """Open the store that a `perdure.yaml` or a `config.yaml` describes, with the environment and `.env`.

        `options` are those of `open`, and win over both. Nothing is started by it: runs go on with the first
        `recover()` or worker, after handlers are registered. Raises `InvalidConfigError` naming everything that is
        wrong, each with its place.
        """
        from perdure.app.config.config import Config

        url, given = Config.load(path).opened(options)
        return cls.open(url, **given)

    @classmethod
    def open_as(
        cls,
        mode: Mode,
        url: str,
        *,
        namespace: str,
        migrate: Migrate,
        clock: Clock | None,
        randomness: Randomness | None,
        telemetry: Telemetry | None,
        cache_bytes: int,
        options: StorageOptions,
        baton: Baton | None = None,
        retention: Retention | None = None,
        policies: Policies | None = None,
        subclasses: Subclasses = "refuse",
        agent: AgentDefaults | None = None,
    ) -> Self:
        """Open for asynchronous callers, or for `perdure.sync`, whose threads take turns with a baton."""
        from perdure.core.vocabulary import one_of

        one_of(migrate, ("auto", "check"), "migrate", InvalidInputError)
        if type(cache_bytes) is not int or cache_bytes < 0:
            raise InvalidInputError(f"cache_bytes must be an int from 0 on, not {cache_bytes!r}")
        if clock is not None and not callable(getattr(clock, "now", None)):
            raise InvalidInputError(f"clock must have a method now(), {clock!r} has none")
        if retention is not None:
            _check_policy(retention)
        if subclasses != "refuse":
            from perdure.core.subclasses import check_subclasses

            check_subclasses(subclasses)
        checked = check_namespace(namespace)
        address = parse(url)
        parts = Parts(
            address, mode, migrate=migrate, clock=clock, randomness=randomness, telemetry=telemetry,
            cache_bytes=cache_bytes, options=given(options, address.scheme), baton=baton, retention=retention,
            policies=policies, subclasses=subclasses, agent=agent,
        )  # fmt: skip
        return cls(parts, checked)

    def thread(
        self,
        id: str,
        *,
        user: UserArg = None,
        agent: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        actor: str | None = None,
        task: str | None = None,
    ) -> Thread:
        """A handle on a thread, which is made by its first write. Agent, name and tags are kept with that write.

        Without a `user` it is the thread of this id that belongs to nobody. `user=ANY_USER` is for trusted code: the
        only thread of this id, whoever owns it, or `AmbiguousThreadError`.
        `actor` and `task` say who writes through this handle and for which task: they stand on every point it makes.
        """
        owner = None if user is ANY_USER else user
        key = ThreadKey(self._namespace, self._parts.users.key(owner), check_id(id, "the thread id"))
        labels = check_tags(tags)
        agent, name = check_label(agent, "agent"), check_label(name, "name")
        given = agent is not None or name is not None or labels
        patch = ThreadPatch(agent=agent, name=name, tags=labels or None) if given else NO_PATCH
        traces = {"actor": check_label(actor, "actor"), "task": check_label(task, "task")}
        return Thread(self._parts, key, any_user=user is ANY_USER, patch=patch, **traces)

    @overload
    def scope(self, *, user: UserId, namespace: str | None = None) -> UserScope: ...
    @overload
    def scope(self, *, approver: str, groups: Iterable[str] = (), namespace: str | None = None) -> ApproverScope: ...
    def scope(
        self,
        *,
        user: UserId | None = None,
        approver: str | None = None,
        groups: Iterable[str] = (),
        namespace: str | None = None,
    ) -> UserScope | ApproverScope:
        """What a request handler gets: an object that sees the threads of one `user` and nothing else.

        With `approver` and `groups` it sees the open questions that this person may answer and nothing else. Another
        `namespace` than the store's may be named. The store stays open, and is closed by whoever opened it.
        """
        return scope_of(self, user, approver, groups, namespace)

    def agent(
        self,
        name: str,
        *,
        model: Model | None = None,
        tools: Sequence[Callable[..., Any] | Askable] = (),
        instructions: str | None = None,
        description: str | None = None,
        max_turns: int | None = None,
        timeout: float | timedelta | None = None,
        retry: Retry | int | None = None,
        settings: Mapping[str, Any] | None = None,
        memory: AgentMemory | MemoryManager | bool | None = None,
    ) -> Agent:
        """Register an agent: a model that may call tools until it has an answer. `await agent.run(prompt, thread=…)`.

        It is the handler of its name: a worker, `recover()` and `resume()` go on with its runs wherever the name is
        registered. `instructions` come first in what the model sees, `settings` are handed to it. After `max_turns`
        answers (20) without a final one a run raises `TurnLimitError`. Another agent among the `tools` is asked inside
        the run, and is told of by its `description`. `timeout` is for one answer of the model, `retry` for runs that
        raise, as with `handler`. A model, instructions, settings and a limit of turns that are not given are those of
        the configuration. With `memory`, `{memory}` in the instructions is filled with what is remembered of the user
        whose thread it is (`perdure.memory`).
        """
        from perdure.app.agent import Agent, spec_of

        spec = spec_of(
            name, model=model, tools=tools, instructions=instructions, max_turns=max_turns, timeout=timeout,
            settings=settings, defaults=self._parts.agent, description=description, memory=self._recall(memory),
        )  # fmt: skip
        return Agent(self, self._parts, spec, retry)

    def _recall(self, memory: AgentMemory | MemoryManager | bool | None) -> Recall | None:
        if memory is None:
            return None
        from perdure.memory.agents import recall_of

        return recall_of(self, memory)

    @overload
    async def compare(self, a: object, b: object, /, *, user: UserArg = None) -> Comparison: ...
    @overload
    async def compare(self, a: object, b: object, c: object, /, *more: object, user: UserArg = None) -> Comparisons: ...
    async def compare(self, *points: object, user: UserArg = None) -> Comparison | Comparisons:
        """Compare 2 to 4 points, the others with the first.

        A point is a text ref such as `"ticket-42@12"`, a thread or its id (its newest version), a checkpoint or its id,
        or a pair of a thread and a ref. A text means a thread of `user`, of nobody without one. Raises
        `InvalidInputError` for other counts, `NotFoundError`.
        """
        from perdure.app.comparing import check_count, compare_places
        from perdure.app.pointing import Pointing

        check_count(points)
        pointing = Pointing(self._parts, self._namespace, user)
        return await compare_places(self._parts, [await pointing.place(point) for point in points])

    async def sizes(self, threads: int = 0) -> StoreSizes:
        """How many bytes everything takes, and with `threads` which that many threads are the largest.

        Everything is the whole storage, the threads are those of this namespace; each of them is asked for.
        """
        from perdure.app.weighing import weigh_store

        await self._parts.ready()
        return await weigh_store(self._parts.storage, self._namespace, threads)

    async def export(
        self,
        thread: Thread | str,
        path: str | os.PathLike[str],
        *,
        forks: bool = False,
        sign: bool = True,
        user: UserArg = None,
        max_decoded_bytes: int | None = None,
        max_decoded_nodes: int | None = None,
    ) -> Exported:
        """Write a thread into one file that any store can import; with `forks`, all that descend from it too.

        It is signed with the key of this store: only stores that have this key take it as their own word.
        The file is there whole or not at all. An export that was there is replaced, any other file is left alone.
        Raises `NotFoundError`, `DamagedError` for a thread that fails its digests, `InvalidInputError`. The limits are
        those of the store where none are given.
        """
        from perdure.app.exporting import export_thread

        key = await self._key(thread, user)
        storage, _ = self._parts.within(max_decoded_bytes, max_decoded_nodes)
        return await export_thread(
            storage, key, path, forks=forks, sign=sign, mode=self._parts.mode, file_mode=self._parts.file_mode
        )

    async def import_(
        self,
        path: str | os.PathLike[str],
        *,
        user: UserId | FromFile | None = None,
        to: str | None = None,
        trust: bool = False,
        overwrite: bool = False,
        max_decoded_bytes: int | None = None,
        max_decoded_nodes: int | None = None,
    ) -> list[Copied]:
        """Add the threads of an export for `user`, and return what became of each; it can be repeated.

        They arrive quarantined: they can be read and written, and run nothing until somebody trusts them (`trust`). A
        thread that is here is never changed, unless the file is signed with a key of this store and continues it.
        With `trust=True`, for backups of your own, threads of a file that is signed with such a key keep the standing
        that they had; any other file raises `ExportUnsignedError`.

        `user=FROM_FILE` gives each thread to the owner that the file names, `user=""` to nobody. `to` is another id for
        the thread (forks are then called `to/fork`). A thread of this id with another history is refused, or with
        `overwrite` deleted first. The whole file is checked first: where anything is wrong, `ExportDamagedError` names
        the place and nothing is imported. A file with a value that is larger than the limits (those
        of the store where none are given) is refused by `ValueTooLargeError` before it is unpacked.
        """
        from perdure.app.importing import import_file

        if user is None:
            raise InvalidInputError(
                'say whose the imported threads are: user="alice", user="" for nobody, or user=perdure.FROM_FILE for '
                "the owners that the file names, which is for backups of your own"
            )
        owner = FROM_FILE if isinstance(user, FromFile) else self._parts.users.key(user)
        await self._parts.ready()
        storage, limits = self._parts.within(max_decoded_bytes, max_decoded_nodes)
        done = await import_file(
            storage, path, limits=limits, namespace=self._namespace, to=to, overwrite=overwrite, mode=self._parts.mode,
            user=owner, trust=trust, clock=self._parts.clock,
        )  # fmt: skip
        for each in done:
            self._parts.engine.forget(each.key)
        return done

    async def trust(
        self,
        thread: Thread | str,
        *,
        by: str,
        version: int | None = None,
        dry_run: bool = False,
        user: UserArg = None,
    ) -> TrustPreview:
        """End the quarantine of an imported thread: its runs go on, its decisions count, its questions are asked.

        With `dry_run` nothing is changed: the answer says what would go on. Pass its `version` to trust exactly what
        you saw: `VersionConflictError` when the thread was written to since then. `by` stands in the log. A thread that
        is trusted already stays as it is. Raises `NotFoundError`.
        """
        from perdure.app.trust import check_by, preview_trust, trust

        name, key = check_by(by), await self._key(thread, user)
        await self._parts.flush()
        if dry_run:
            return (await preview_trust(self._parts, key))[1]
        return await trust(self._parts, key, name, version)

    async def trust_file(
        self, path: str | os.PathLike[str], *, by: str, dry_run: bool = False, user: UserArg = None
    ) -> list[TrustPreview]:
        """Trust all quarantined threads that came from a file, or those of a user, and forks of them; see `trust`."""
        from perdure.app.importing import digest_of_file
        from perdure.app.trust import check_by, from_file, preview_trust, trust

        name, origin = check_by(by), digest_of_file(path)
        await self._parts.ready()
        await self._parts.flush()
        found = await from_file(self._parts, self._namespace, self._whose(user), origin)
        if dry_run:
            return [(await preview_trust(self._parts, key))[1] for key in found]
        return [await trust(self._parts, key, name, None) for key in found]

    async def restored(self, *, by: str) -> Restoration:
        """Call this once after the storage was restored from a backup, before anything else uses it.

        What was written after the backup is forgotten, also which tools were about to run. The storage gets another
        incarnation, so that no cache of before is believed, and every unfinished run is quarantined until somebody
        looked at it and trusts it (`trust`).
        """
        from perdure.app.restoration import restored
        from perdure.app.trust import check_by

        name = check_by(by)
        await self._parts.ready()
        return await restored(self._parts, name)

    async def prune(
        self,
        policy: Retention | None = None,
        dry_run: bool = False,
        *,
        user: UserArg = None,
        progress: Progress | None = None,
    ) -> PruneReport:
        """Drop what a policy (default: the one the store was opened with) does not keep, of all threads or of a user's.

        With `dry_run` nothing is changed: the report tells what would go, why, and about how many bytes that frees.
        Each thread is pruned by writes that are whole in themselves, so it can be stopped at any time, and repeated.
        """
        from perdure.core.retention_policy import policy_of

        policy = self._parts.retention if policy is None else policy
        if policy is None:
            raise InvalidInputError("there is no policy to prune by: give a Retention, or open the store with one")
        await self._parts.ready()
        whose = self._whose(user)
        return await self._parts.maintenance.prune(
            self._namespace, policy_of(policy), user=whose, dry_run=dry_run, progress=progress
        )

    async def verify(
        self,
        *,
        restore: bool = False,
        user: UserArg = None,
        progress: VerifyProgress | None = None,
        max_decoded_bytes: int | None = None,
        max_decoded_nodes: int | None = None,
    ) -> Report:
        """Check all threads, or those of a user: every log, every whole state, every index. Nothing is changed.

        With `restore`, every checkpoint is restored and compared too. What is damaged is named in the report. Entries
        that no thread leads to are told whatever the namespace is, unless a user is named. What is larger than the
        limits (those of the store where none are given) is not looked at, and named too.
        """
        await self._parts.ready()
        await self._parts.flush()
        whose = self._whose(user)
        verifier = self._parts.verifier_within(max_decoded_bytes, max_decoded_nodes)
        return await verifier.everything(self._namespace, user=whose, restore=restore, progress=progress)

    async def repair(
        self,
        *,
        user: UserArg = None,
        progress: RepairProgress | None = None,
        max_decoded_bytes: int | None = None,
        max_decoded_nodes: int | None = None,
    ) -> Repaired:
        """Make everything again that is derived from the logs, of all threads or of a user's.

        The logs are never changed: what is damaged in them is named in the answer and stays as it is.
        """
        await self._parts.ready()
        await self._parts.flush()
        whose = self._whose(user)
        repairer = self._parts.repairer_within(max_decoded_bytes, max_decoded_nodes)
        done = await repairer.everything(self._namespace, user=whose, progress=progress)
        if await self._parts.has_views():
            from perdure.app.sql_views import rebuild

            await rebuild(self._parts, self._namespace)
        return done

    async def damaged(self) -> list[Damage]:
        """The threads of this namespace that lists, searches and workers skip, because they cannot be read.

        Each is named with its place, the reason and the next step; one of which nobody can tell whose it is has no
        `thread_id`. `verify` looks deeper. `repair` mends what can be mended, `delete` removes a thread.
        """
        await self._parts.ready()
        found = await self._parts.verifier.unlisted(self._namespace)
        known = {(each.user, each.thread_id) for each in found}
        skipped = self._parts.engine.damage_log.skipped()
        return found + [
            each for each in skipped if each.namespace == self._namespace and (each.user, each.thread_id) not in known
        ]

    async def forget(
        self, user: UserId, dry_run: bool = True, *, force: bool = False, progress: ForgetProgress | None = None
    ) -> Forgotten:
        """Erase everything of a user in this namespace; without `dry_run=False`, only say what there is.

        That is every thread of the user with its messages, checkpoints, runs, pauses (links to them lead nowhere then),
        tool results and large values; forks, imports and subgraphs; the user's cached values and items of LangGraph's
        store; and their copies in Redis. A tombstone without any id or content says that a user was forgotten
        (`forgotten`). What cannot be reached from here is named in the answer; call `compact` afterwards, which removes
        freed bytes.

        Threads that are being run raise `UserActiveError` before anything is erased; with `force`, they are erased too,
        and their runs stop at the next write. It may be killed at any moment: threads go one by one, each whole, and
        calling it again completes it. Raises `InvalidIdError` without a user.
        """
        from perdure.app.erasure import forget

        return await forget(
            self._parts, self._namespace, user, dry_run=dry_run, force=force, progress=progress, scoped=False
        )

    async def forgotten(self) -> list[Tombstone]:
        """The tombstones of the users who were forgotten in this namespace, newest first."""
        from perdure.app.erasure import tombstones

        return await tombstones(self._parts, self._namespace)

    async def compact(self) -> int:
        """Give disk space that nothing uses any more back to the system, and return how many bytes that was.

        `compacting()` says who has to wait meanwhile. What is stored does not change.
        """
        await self._parts.ready()
        await self._parts.storage.sweep_blobs(self._parts.clock.now())
        await self._parts.purge_views()
        return await self._parts.storage.compact()

    async def refresh_views(self, *, progress: ViewsProgress | None = None) -> ViewsReport:
        """Bring the SQL views `agent_threads`, `agent_states` and `agent_messages` up with the logs of this namespace.

        They are made by the first call. Only threads that were written to since the last call are read. Raises
        `InvalidInputError` where there is no SQL database.
        """
        from perdure.app.sql_views import refresh

        return await refresh(self._parts, self._namespace, progress)

    async def drop_views(self) -> bool:
        """Remove the SQL views, of all namespaces, and everything that they hold; False when there were none."""
        from perdure.app.sql_views import drop

        return await drop(self._parts)

    def compacting(self) -> str:
        """Who has to wait while `compact` works, in a sentence."""
        return self._parts.storage.compacting()

    async def setup(self) -> None:
        """Make or upgrade the layout of the storage; the first use does so too."""
        await self._parts.ready()

    async def flush(self) -> None:
        """Wait until everything that was answered is durable. Only `durability="background"` leaves something to do.

        Raises `BackgroundWriteError` naming what could not be made.
        """
        await self._parts.flush()

    async def warm(self, users: Iterable[UserId], *, threads: int = 3) -> int:
        """Bring the newest threads of these users into Redis, and return how many there are now.

        Raises `InvalidInputError` where there is no hot layer.
        """
        return await self._parts.warm(self._namespace, users, threads)

    async def close(self) -> None:
        """Let go of files and connections; a second call does nothing."""
        self._finalizer.detach()
        await self._parts.finish()
        await self._parts.storage.close()

    def __enter__(self) -> NoReturn:
        raise InvalidInputError("this store is for asynchronous code: async with, or from perdure.sync import Perdure")

    def __exit__(self, *error: object) -> None: ...

    async def __aenter__(self) -> Self:
        await self._parts.ready()
        await self._parts.look_over(self._namespace)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def namespace_of(store: Perdure) -> str:
    """The namespace of a store, for the faces that are built on it."""
    return store._namespace  # pyright: ignore[reportPrivateUsage]


def parts_of(store: Perdure) -> Parts:
    """What a store is made of, for the faces that are built on it."""
    return store._parts  # pyright: ignore[reportPrivateUsage]


def scope_of(
    store: Perdure, user: UserId | None, approver: str | None, groups: Iterable[str], namespace: str | None
) -> UserScope | ApproverScope:
    """The scope of a user or of an approver, for both faces; raise `InvalidInputError` for neither and for both."""
    from perdure.app.scope import ApproverScope, UserScope
    from perdure.core.approvers import approver_of

    parts, checked = parts_of(store), store.namespace if namespace is None else check_namespace(namespace)
    if user is None and approver is not None:
        return ApproverScope(parts, checked, approver_of(approver, groups, "the approver"))
    if approver is not None or list(groups):
        raise InvalidInputError("a scope is of a user, or of an approver with their groups: name one of the two")
    # A session without a user must not see what all other sessions without one wrote.
    if user is None or not parts.users.key(user):
        raise InvalidIdError("the user of a scope", "is missing")
    return UserScope(store if checked == store.namespace else type(store)(parts, checked), user)


def policies_given(
    checkpoints: Triggers | None, recovery: RecoveryPolicy | None, approvals: Approvals | None,
    webhooks: Sequence[Webhook],
) -> Policies | None:  # fmt: skip
    """How runs are to behave; None, and nothing is imported for it, where nothing was said."""
    if checkpoints is None and recovery is None and approvals is None and not webhooks:
        return None
    from perdure.core.policies import policies_of

    if webhooks:
        from perdure.runtime.sending import Sender

        Sender()  # a missing extra is told now, not when somebody should have been told
    return policies_of(checkpoints=checkpoints, recovery=recovery, approvals=approvals, webhooks=webhooks)


def _check_policy(retention: object) -> None:
    from perdure.core.retention_policy import Retention

    if not isinstance(retention, Retention):
        raise InvalidInputError(f"retention must be a Retention, not {retention!r}")


def _close_forgotten(storage: Storage) -> None:
    """A store nobody closed: closing never waits for an event loop, so it can be driven here."""
    from perdure.storage.drive import drive

    # One that still writes in the background does so on the loop it was used on; what was lost has been logged.
    with suppress(SuspendedError, BackgroundWriteError):
        drive(storage.close())
