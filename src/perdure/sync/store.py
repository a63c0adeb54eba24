"""An open store for synchronous code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, overload

from perdure.app import store as app
from perdure.app.analytics import Analytics, Topics
from perdure.app.asking import Filters, MessageLine
from perdure.app.copying import Copied
from perdure.app.exporting import Exported
from perdure.app.maintenance import Progress, PruneReport
from perdure.app.options import StorageOptions
from perdure.app.restoration import Restoration
from perdure.app.store import CACHE_BYTES, policies_given, scope_of
from perdure.app.thread import ThreadInfo
from perdure.app.users import UserArg, UserId
from perdure.checkpoints.repairing import Progress as RepairProgress
from perdure.checkpoints.repairing import Repaired
from perdure.checkpoints.verifying import Progress as VerifyProgress
from perdure.core.approvals import Approvals
from perdure.core.comparison import Comparison, Comparisons
from perdure.core.errors import InvalidInputError
from perdure.core.identity import FromFile
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.retention_policy import Retention
from perdure.core.subclasses import Subclasses
from perdure.core.triggers import Triggers
from perdure.core.trust_preview import TrustPreview
from perdure.core.verification import Damage, Report
from perdure.core.webhooks import Webhook
from perdure.core.weights import StoreSizes
from perdure.storage.baton import Baton
from perdure.storage.contract import Migrate
from perdure.storage.drive import drive
from perdure.sync.agents import Agents
from perdure.sync.driver import Driver
from perdure.sync.thread import Thread, held

if TYPE_CHECKING:
    from datetime import datetime

    from perdure.app.erasure import Progress as ForgetProgress
    from perdure.app.sql_views import Progress as ViewsProgress
    from perdure.app.sql_views import ViewsReport
    from perdure.app.usage import Progress as UsageProgress
    from perdure.core.erasure import Forgotten, Tombstone
    from perdure.core.usage import UsageBy, UsageReport
    from perdure.runtime.agents.defaults import AgentDefaults
    from perdure.sync.scope import ApproverScope, UserScope


class Perdure(Agents):
    """`perdure.Perdure` for synchronous code: a plain context manager."""

    def __init__(self, store: app.Perdure, baton: Baton) -> None:
        self._store = store
        self._run = Driver(baton)

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
        """Open the store at `url`; it is reached at the first use. See `perdure.Perdure.open`."""
        baton = Baton()
        store = app.Perdure.open_as(
            "sync", url, namespace=namespace, migrate=migrate, clock=clock, randomness=randomness,
            telemetry=telemetry, cache_bytes=cache_bytes, options=options, baton=baton, retention=retention,
            policies=policies_given(checkpoints, recovery, approvals, webhooks), subclasses=subclasses,
            agent=agent,
        )  # fmt: skip
        return cls(store, baton)

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """Open the store that a `perdure.yaml` or a `config.yaml` describes. See `perdure.Perdure.from_config`."""
        from perdure.app.config.config import Config

        url, given = Config.load(path).opened(options)
        return cls.open(url, **given)

    @property
    def namespace(self) -> str:
        """The namespace of the threads of this store."""
        return self._store.namespace

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
        """A handle on a thread, which is made by its first write."""
        thread = self._store.thread(id, user=user, agent=agent, name=name, tags=tags, actor=actor, task=task)
        return Thread(thread, self._run)

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
        """What a request handler gets: an object that sees one user, or one approver. See `perdure.Perdure.scope`."""
        from perdure.app.scope import UserScope as AsyncUserScope
        from perdure.sync.scope import ApproverScope, UserScope

        made = scope_of(self._store, user, approver, groups, namespace)
        return UserScope(made, self._run) if isinstance(made, AsyncUserScope) else ApproverScope(made, self._run)

    @overload
    def compare(self, a: object, b: object, /, *, user: UserArg = None) -> Comparison: ...
    @overload
    def compare(self, a: object, b: object, c: object, /, *more: object, user: UserArg = None) -> Comparisons: ...
    def compare(self, *points: Any, user: UserArg = None) -> Comparison | Comparisons:
        """Compare 2 to 4 points, the others with the first. See `perdure.Perdure.compare`."""
        return self._run(self._store.compare(*map(held, points), user=user))

    def usage(
        self,
        by: UsageBy = "model",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user: UserArg = None,
        prices: Mapping[str, Any] | None = None,
        progress: UsageProgress | None = None,
    ) -> UsageReport:
        """Tokens, calls, retries and money of models. See `perdure.Perdure.usage`."""
        asked = self._store.usage(by, since=since, until=until, user=user, prices=prices, progress=progress)
        return self._run(asked)

    def threads(
        self,
        limit: int = 50,
        *,
        user: UserArg = None,
        agent: str | None = None,
        status: str | None = None,
        tag: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        search: str | None = None,
        offset: int = 0,
    ) -> list[ThreadInfo]:
        """List threads, newest first, never their states; with `user`, only that user's."""
        return self._run(
            self._store.threads(
                limit, user=user, agent=agent, status=status, tag=tag, metadata=metadata, search=search, offset=offset
            )
        )

    def search(
        self, text: str, *, user: UserArg = None, limit: int = 50, **filters: Unpack[Filters]
    ) -> list[MessageLine]:
        """Find messages of all threads, or of a user's, that hold all words of `text`; newest first."""
        return self._run(self._store.search(text, user=user, limit=limit, **filters))

    def analytics(self, *, user: UserArg = None, topics: Topics | None = None, **filters: Unpack[Filters]) -> Analytics:
        """The messages of all threads, or of a user's, in numbers; counted by the storage."""
        return self._run(self._store.analytics(user=user, topics=topics, **filters))

    def sizes(self, threads: int = 0) -> StoreSizes:
        """How many bytes everything takes, and with `threads` which that many threads are the largest."""
        return self._run(self._store.sizes(threads))

    def export(
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
        """Write a thread into one file that any store can import; with `forks`, all that descend from it too."""
        handle = thread._thread if isinstance(thread, Thread) else thread  # pyright: ignore[reportPrivateUsage]
        done = self._store.export(
            handle, path, forks=forks, sign=sign, user=user, max_decoded_bytes=max_decoded_bytes,
            max_decoded_nodes=max_decoded_nodes,
        )  # fmt: skip
        return self._run(done)

    def import_(
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
        """Add the threads of an export for `user`, and return what became of each. See `perdure.Perdure.import_`."""
        done = self._store.import_(
            path, user=user, to=to, trust=trust, overwrite=overwrite, max_decoded_bytes=max_decoded_bytes,
            max_decoded_nodes=max_decoded_nodes,
        )  # fmt: skip
        return self._run(done)

    def trust(
        self,
        thread: Thread | str,
        *,
        by: str,
        version: int | None = None,
        dry_run: bool = False,
        user: UserArg = None,
    ) -> TrustPreview:
        """End the quarantine of an imported thread. See `perdure.Perdure.trust`."""
        handle = thread._thread if isinstance(thread, Thread) else thread  # pyright: ignore[reportPrivateUsage]
        return self._run(self._store.trust(handle, by=by, version=version, dry_run=dry_run, user=user))

    def restored(self, *, by: str) -> Restoration:
        """Call this once after the storage was restored from a backup. See `perdure.Perdure.restored`."""
        return self._run(self._store.restored(by=by))

    def trust_file(
        self, path: str | os.PathLike[str], *, by: str, dry_run: bool = False, user: UserArg = None
    ) -> list[TrustPreview]:
        """Trust all quarantined threads that came from a file. See `perdure.Perdure.trust_file`."""
        return self._run(self._store.trust_file(path, by=by, dry_run=dry_run, user=user))

    def prune(
        self,
        policy: Retention | None = None,
        dry_run: bool = False,
        *,
        user: UserArg = None,
        progress: Progress | None = None,
    ) -> PruneReport:
        """Drop what a policy (default: the store's own) does not keep, of all threads or of a user's."""
        return self._run(self._store.prune(policy, dry_run, user=user, progress=progress))

    def verify(
        self,
        *,
        restore: bool = False,
        user: UserArg = None,
        progress: VerifyProgress | None = None,
        max_decoded_bytes: int | None = None,
        max_decoded_nodes: int | None = None,
    ) -> Report:
        """Check all threads, or those of a user: every log, every whole state, every index. Nothing is changed."""
        done = self._store.verify(
            restore=restore, user=user, progress=progress, max_decoded_bytes=max_decoded_bytes,
            max_decoded_nodes=max_decoded_nodes,
        )  # fmt: skip
        return self._run(done)

    def repair(
        self,
        *,
        user: UserArg = None,
        progress: RepairProgress | None = None,
        max_decoded_bytes: int | None = None,
        max_decoded_nodes: int | None = None,
    ) -> Repaired:
        """Make everything again that is derived from the logs, of all threads or of a user's."""
        done = self._store.repair(
            user=user, progress=progress, max_decoded_bytes=max_decoded_bytes, max_decoded_nodes=max_decoded_nodes
        )
        return self._run(done)

    def damaged(self) -> list[Damage]:
        """The threads that lists, searches and workers skip, because they cannot be read. See `perdure.Perdure`."""
        return self._run(self._store.damaged())

    def forget(
        self, user: UserId, dry_run: bool = True, *, force: bool = False, progress: ForgetProgress | None = None
    ) -> Forgotten:
        """Erase everything of a user; without `dry_run=False`, only say what there is. See `perdure.Perdure.forget`."""
        return self._run(self._store.forget(user, dry_run, force=force, progress=progress))

    def forgotten(self) -> list[Tombstone]:
        """The tombstones of the users who were forgotten in this namespace, newest first."""
        return self._run(self._store.forgotten())

    def compact(self) -> int:
        """Give disk space that nothing uses any more back to the system, and return how many bytes that was."""
        return self._run(self._store.compact())

    def refresh_views(self, *, progress: ViewsProgress | None = None) -> ViewsReport:
        """Bring the SQL views up with the logs of this namespace. See `perdure.Perdure.refresh_views`."""
        return self._run(self._store.refresh_views(progress=progress))

    def drop_views(self) -> bool:
        """Remove the SQL views, of all namespaces, and everything that they hold; False when there were none."""
        return self._run(self._store.drop_views())

    def compacting(self) -> str:
        """Who has to wait while `compact` works, in a sentence."""
        return self._store.compacting()

    def setup(self) -> None:
        """Make or upgrade the layout of the storage; the first use does so too."""
        self._run(self._store.setup())

    def flush(self) -> None:
        """Wait until everything that was answered is durable."""
        self._run(self._store.flush())

    def warm(self, users: Iterable[UserId], *, threads: int = 3) -> int:
        """Bring the newest threads of these users into Redis, and return how many there are now."""
        return self._run(self._store.warm(users, threads=threads))

    def close(self) -> None:
        """Let go of files and connections; a second call does nothing. In a forked child it only forgets them."""
        if self._run.is_inherited():
            drive(self._store.close())
        else:
            self._run(self._store.close())

    async def __aenter__(self) -> NoReturn:
        raise InvalidInputError("this store is for synchronous code: with, or from perdure import Perdure")

    async def __aexit__(self, *error: object) -> None: ...

    def __enter__(self) -> Self:
        self._run(self._store.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def inside(store: Perdure) -> tuple[app.Perdure, Driver]:
    """The store for asynchronous code that a synchronous one drives, and what drives it; for faces built on both."""
    return store._store, store._run  # pyright: ignore[reportPrivateUsage]
