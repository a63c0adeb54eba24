"""A storage that was restored from a backup: nothing is done twice silently, and nothing of the future is shown."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, sync
from perdure.core.errors import QuarantinedError
from perdure.core.runs import FINISHED
from perdure.testing.servers import require, shared_redis


def _handlers(store: Perdure, charged: list[str]) -> None:
    @store.handler("order")
    async def order(run: Any) -> str:
        await run.step("prepare", lambda: "ready")
        await run.pause("charge", ask="Charge?")
        return await run.tool("charge", lambda: charged.append("charged") or "charged")


async def _answer(store: Perdure) -> None:
    for pause in await store.pauses():
        await store.decide(pause, approved=True, by="ann")
    await store.resume("t")


def _back_up(path: Path, to: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def _restore(path: Path, backup: Path) -> None:
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink(missing_ok=True)
    path.write_bytes(backup.read_bytes())


@pytest.mark.parametrize("hot", [False, True])
async def test_after_a_restore_no_tool_runs_again_silently(hot: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"hot": require(shared_redis).url} if hot else {}
    path, backup, charged = tmp_path / "agents.db", tmp_path / "backup.db", list[str]()
    url = f"sqlite:///{path}"
    async with Perdure.open(url, **options) as store:
        _handlers(store, charged)
        await store.thread("talk").save({"night": 1})
        await store.start("order", thread="t")
        await store.recover()
        assert len(await store.pauses()) == 1
        _back_up(path, backup)
        await _answer(store)
        await store.thread("talk").save({"night": 2})
        assert charged == ["charged"]
        assert await store.thread("talk").load() == {"night": 2}
    _restore(path, backup)
    async with Perdure.open(url, **options) as store:
        _handlers(store, charged)
        done = await store.restored(by="ann")
        assert [key.id for key in done.quarantined] == ["t"]
        assert await store.thread("talk").load() == {"night": 1}
        assert await store.recover() == []
        with pytest.raises(QuarantinedError):
            await store.resume("t")
        assert charged == ["charged"]
        await store.trust("t", by="ann")  # somebody looked, and lets it happen again
        await _answer(store)
        (info,) = await store.runs()
        assert (info.status, charged) == (FINISHED, ["charged"] * 2)
        assert (await store.verify()).damaged == []


async def test_caches_of_another_incarnation_are_not_believed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    async with Perdure.open(url, hot=require(shared_redis).url) as store:
        await store.thread("t").save({"n": 1})
        await store.thread("t").load()
        first = (await store._parts.storage._cache())._keys._prefix  # type: ignore[attr-defined,union-attr]
        incarnation = (await store.restored(by="ann")).incarnation
        assert (await store.restored(by="ann")).incarnation != incarnation
    async with Perdure.open(url, hot=require(shared_redis).url) as store:
        assert await store.thread("t").load() == {"n": 1}
        assert (await store._parts.storage._cache())._keys._prefix != first  # type: ignore[attr-defined,union-attr]


def test_the_command_line_tells_what_waits(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    asked = [sys.executable, "-m", "perdure.cli.main", "restored", url, "--by", "ann"]
    with sync.Perdure.open(url) as store:
        store.handler("work")(lambda run: 1)
        store.start("work", thread="t")
    told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert "1 unfinished run waits for `perdure trust`" in told
    with sync.Perdure.open(url) as store:
        store.handler("work")(lambda run: 1)
        assert store.recover() == []


def test_a_preview_of_a_restored_thread_says_what_would_still_happen(tmp_path: Path) -> None:
    with sync.Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        store.handler("asks")(lambda run: run.pause("go", ask="Go on?").approved)
        store.start("asks", thread="t")
        store.recover()
        store.restored(by="ann")
        told = str(store.trust("t", by="ann", dry_run=True))
        assert "when a backup was restored" in told
        assert "no timer" in told
        assert "would be asked: " in told
        assert "quarantined: a backup was restored" in str(store.why("t"))
        store.cancel("t")
        assert "would be asked: " not in str(store.trust("t", by="ann", dry_run=True))
