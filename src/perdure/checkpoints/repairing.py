"""Repairing threads: everything that is derived from a log is made again from it; the log itself is never changed."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.verifying import Verified, Verifier
from perdure.core.identity import ThreadKey
from perdure.core.verification import Damage
from perdure.storage.contract import Storage

_TRIES = 5  # a thread that was written to meanwhile is looked at again


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What was made again, and what could not be."""

    threads: int = 0
    rebuilt: list[Damage] = []
    left: list[Damage] = []  # of the log itself, or of a line that cannot be read

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written now."""
        return not self.left

    def plus(self, other: Repaired) -> Repaired:
        """Both together."""
        rebuilt, left = [*self.rebuilt, *other.rebuilt], [*self.left, *other.left]
        return Repaired(threads=self.threads + other.threads, rebuilt=rebuilt, left=left)

    def __str__(self) -> str:
        lines = [f"rebuilt {len(self.rebuilt):,}, left {len(self.left):,} in {self.threads:,} threads"]
        lines += [f"  rebuilt  {each}" for each in self.rebuilt]
        return "\n".join([*lines, *(f"  left     {each}" for each in self.left)])


Progress = Callable[[int, int, Repaired], None]  # how many threads are done, of how many, and what became of the newest


def damage_of_key(key: ThreadKey, reason: str) -> Damage:
    """Something of a thread that a storage mended by itself."""
    return Damage(
        thread_id=key.id, user=key.user, namespace=key.namespace, place="storage", reason=reason, derived=True
    )


class Repairer:
    """Repairs threads of a storage."""

    def __init__(self, storage: Storage, verifier: Verifier, engine: Engine) -> None:
        self._storage = storage
        self._verifier = verifier
        self._engine = engine

    async def thread(self, key: ThreadKey) -> Repaired:
        """Make again what is damaged and derived in one thread."""
        mended = [damage_of_key(key, reason) for reason in await self._storage.mend(key)]
        before = found = await self._verifier.look(key)
        for _ in range(_TRIES):
            if not any(each.derived for each in found.report.damaged):
                break
            done, known = await self._rebuilt(found), found.report.damaged
            found = await self._verifier.look(key)
            if done and found.report.damaged == known:
                break  # nothing more can be made again
        if before.report.ok:
            return Repaired(threads=before.report.threads, rebuilt=mended)
        left = found.report.damaged
        await self._snapshot(key, left)
        rebuilt = [*mended, *(each for each in before.report.damaged if each not in left)]
        return Repaired(threads=1, rebuilt=rebuilt, left=left)

    async def _rebuilt(self, found: Verified) -> bool:
        """Put what was made from the log; False when somebody wrote to the thread meanwhile."""
        if found.thread is None or found.made is None:
            return True
        key = found.thread.row.key
        for version in found.bad:
            await self._storage.drop_snapshot(key, version)
        done = await self._storage.reindex(found.thread.row, found.made)
        self._engine.forget(key)
        return done

    async def _snapshot(self, key: ThreadKey, left: list[Damage]) -> None:
        """A whole state in the place of one that was dropped."""
        if not left:
            await self._engine.snapshot(key)

    async def store(self, namespace: str, *, user: str | None = None, progress: Progress | None = None) -> Repaired:
        """All threads of a namespace, or of one user in it."""
        broken = await self._verifier.unlisted(namespace, user)
        total = Repaired()
        for each in broken:
            if each.thread_id:
                total = total.plus(await self.thread(ThreadKey(each.namespace, each.user, each.thread_id)))
        listed = await self._verifier.listed(namespace, user)
        total = total.plus(Repaired(left=[each for each in broken if not each.thread_id]))
        found: dict[ThreadKey, Repaired] = {}
        for done, key in enumerate(listed.keys, 1):
            found[key] = await self.thread(key)
            if progress is not None:
                progress(done, len(listed.keys), found[key])
        # A fork may have been looked at before one that it descends from, by way of a thread that was deleted.
        for _ in range(_TRIES):
            if not await self._again(found):
                break
        total = total.plus(Repaired(left=listed.damaged))
        for each in found.values():
            total = total.plus(each)
        return total

    async def everything(
        self, namespace: str, *, user: str | None = None, progress: Progress | None = None
    ) -> Repaired:
        """All threads of a namespace, or of one user in it; unless one is named, what no thread leads to as well."""
        done = await self.store(namespace, user=user, progress=progress)
        return done if user is not None else done.plus(await self.strays())

    async def strays(self) -> Repaired:
        """Entries that no thread leads to: nothing can be made again of them."""
        return Repaired(left=(await self._verifier.strays()).damaged)

    async def _again(self, found: dict[ThreadKey, Repaired]) -> bool:
        """Look once more at what has something left; whether any of it is better now."""
        better = False
        for key, before in found.items():
            if before.left:
                now = await self.thread(key)
                mended = [each for each in before.left if each not in now.left]
                better = better or bool(mended)
                found[key] = Repaired(threads=before.threads, rebuilt=[*before.rebuilt, *mended], left=now.left)
        return better
