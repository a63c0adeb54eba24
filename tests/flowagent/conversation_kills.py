"""Kill an orchestrated conversation after each of its saves; the next process is sent the last message once more.

    python -m tests.flowagent.conversation_kills KIND ADDRESS FOLDER [EVERY]

Prints one line of JSON: how many saves an undisturbed conversation makes, how many kills there were, what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from perdure import CheckpointManager, Message, Orchestrator, StandardAgent
from perdure.flowagent.storages import PostgresCheckpointStorage, SQLiteCheckpointStorage

TURNS = ["I want to travel", "Paris", "no number", "3", "thanks", "and a second trip", "Rome", "2"]
ANSWERS = ["Which city?", "Please give nights.", "'no number' is no whole number. Please give nights.",
           "3 nights in Paris", "Which city?", "Please give nights.", "2 nights in Rome"]  # fmt: skip


def marks(folder: Path) -> list[str]:
    path = folder / "marks"
    return path.read_text().splitlines() if path.exists() else []


class Booking(StandardAgent):
    required_fields = ({"name": "city", "prompt": "Which city?"}, {"name": "nights", "type": "integer"})
    folder: Path

    async def on_running(self, msg: Message) -> str:
        with open(type(self).folder / "marks", "a") as file:
            file.write(f"{self.collected_fields['city']}\n")
        self.status = "COMPLETED"
        return f"{self.collected_fields['nights']} nights in {self.collected_fields['city']}"


async def life(kind: str, address: str, folder: Path, kill_at: int | None) -> int:
    """Go on with the conversation where the answers that arrived end; return how many saves that took."""
    Booking.folder = folder
    opened = SQLiteCheckpointStorage(address) if kind == "sqlite" else PostgresCheckpointStorage(address)
    async with opened as storage:
        count, keep = [0], storage.keep

        async def counted(*args: Any) -> Any:
            saved = await keep(*args)
            count[0] += 1
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return saved

        storage.keep = counted  # type: ignore[method-assign]
        orchestrator = Orchestrator([Booking], checkpoint_manager=CheckpointManager(storage), auto_checkpoint=True)
        heard = folder / "answers"
        turns = [each for each in TURNS if each != "thanks"]
        for at in range(len(heard.read_text().splitlines()) if heard.exists() else 0, len(turns)):
            answer = await orchestrator.handle_message(folder.name, Message("user", turns[at], id=f"m{at}"))
            with open(heard, "a") as file:
                file.write(f"{answer}\n")
        return count[0]


def in_child(kind: str, address: str, folder: Path, kill_at: int | None) -> tuple[int, int]:
    folder.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        try:
            (folder / "saves").write_text(str(asyncio.run(life(kind, address, folder, kill_at))))
            os._exit(0)
        except BaseException as exc:
            (folder / "error").write_text(repr(exc))
            os._exit(1)
    _, status = os.waitpid(child, 0)
    saves = folder / "saves"
    return status, int(saves.read_text()) if saves.exists() else 0


def campaign(kind: str, address: str, folder: Path, every: int = 1) -> dict[str, Any]:
    wrong: list[str] = []

    def look(name: str) -> None:
        answers = (folder / name / "answers").read_text().splitlines()
        if answers != ANSWERS:
            wrong.append(f"{name}: answers {answers}")
        if marks(folder / name) != ["Paris", "Rome"]:
            wrong.append(f"{name}: work done {marks(folder / name)}")

    status, saves = in_child(kind, address, folder / "calm", None)
    if status:
        return {"wrong": [(folder / "calm" / "error").read_text()]}
    look("calm")
    kills = 0
    for at in range(1, saves + 1, every):
        status, _ = in_child(kind, address, folder / f"k{at}", at)
        kills += os.WIFSIGNALED(status)
        status, _ = in_child(kind, address, folder / f"k{at}", None)
        if status:
            wrong.append(f"after save {at}: {(folder / f'k{at}' / 'error').read_text()}")
        else:
            look(f"k{at}")
    return {"saves": saves, "kills": kills, "wrong": wrong}


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(campaign(given[0], given[1], Path(given[2]), int(given[3]) if len(given) > 3 else 1)))
