"""The faces that only read and write read and write an imported thread; none of them makes it run."""

from __future__ import annotations

from pathlib import Path

from perdure import FROM_FILE, CheckpointManager, Message, SQLiteCheckpointStorage, StandardAgent, sync
from perdure.checkpointer import AgentState, SQLiteCheckpointer
from perdure.checkpointer import Message as Said


class Clerk(StandardAgent):
    async def on_running(self, msg: Message) -> str:
        return f"{len(self.history)}"


async def test_a_checkpointer_reads_and_writes_it(tmp_path: Path) -> None:
    config = {"thread_id": "t", "user_id": "alice"}
    theirs = SQLiteCheckpointer(tmp_path / "theirs.db")
    await theirs.aput_state(config, AgentState(context=[Said("user", "hi")]))
    await theirs.store.export("t", tmp_path / "t", user="alice")
    await theirs.arelease()
    ours = SQLiteCheckpointer(tmp_path / "ours.db")
    (made,) = await ours.store.import_(tmp_path / "t", user="alice")
    assert made.quarantined
    state = await ours.aget_state(config)
    assert state is not None
    assert "hi" in repr(state.context)
    await ours.aput_state(config, state)
    assert [each.thread_id for each in await ours.alist_threads({"user_id": "alice"})] == ["t"]
    info = await ours.store.thread("t", user="alice").info()
    assert (info.quarantined is not None, info.version) == (True, 2)
    await ours.arelease()


async def test_a_manager_restores_an_agent_from_it(tmp_path: Path) -> None:
    theirs = CheckpointManager(SQLiteCheckpointStorage(str(tmp_path / "theirs.db")))
    agent = Clerk("agent-1", "alice")
    await agent.reply("hello")
    mark = await theirs.save(agent)
    with sync.Perdure.open(f"sqlite:///{tmp_path}/theirs.db", namespace="flowagent") as store:
        (info,) = store.threads()
        store.export(info.id, tmp_path / "t", user="alice")
    with sync.Perdure.open(f"sqlite:///{tmp_path}/ours.db", namespace="flowagent") as store:
        store.import_(tmp_path / "t", user=FROM_FILE)
    ours = CheckpointManager(SQLiteCheckpointStorage(str(tmp_path / "ours.db")))
    restored = await ours.restore(mark)
    assert [each.content for each in restored.history] == [each.content for each in agent.history]
