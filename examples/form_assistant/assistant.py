"""A form-filling assistant: several agents, one conversation a user, and nothing lost when it is killed.

    python assistant.py [USER]

Runs without a key. With OPENAI_API_KEY set, a model chooses the agent for a new conversation.
"""

from __future__ import annotations

import asyncio
import os
import sys

from perdure import (
    CheckpointManager,
    Message,
    ModelRouter,
    OpenAICompatible,
    Orchestrator,
    SQLiteCheckpointStorage,
    StandardAgent,
)


class TravelRequest(StandardAgent):
    """Fills in a request for a business trip."""

    required_fields = (
        {"name": "city", "prompt": "Where to?"},
        {"name": "day", "type": "date", "prompt": "On which day? (such as 2026-12-01)"},
        {"name": "nights", "type": "integer", "min": 1, "max": 30, "prompt": "How many nights?"},
        {"name": "hotel", "type": "boolean", "prompt": "Do you need a hotel?"},
    )

    def can_handle(self, msg: Message) -> bool:
        return any(word in str(msg.content).lower() for word in ("travel", "trip", "fly"))

    async def on_running(self, msg: Message) -> str:
        fields = self.collected_fields
        self.status = "COMPLETED"
        return f"Filed: {fields['city']}, {fields['day']}, {fields['nights']} nights, hotel: {fields['hotel']}"


class Expenses(StandardAgent):
    """Takes an expense: an amount and what it was for."""

    required_fields = (
        {"name": "amount", "type": "number", "min": 0, "prompt": "How much, in EUR?"},
        {"name": "reason", "prompt": "What for?"},
    )

    def can_handle(self, msg: Message) -> bool:
        return any(word in str(msg.content).lower() for word in ("expense", "paid", "receipt"))

    async def on_running(self, msg: Message) -> str:
        self.status = "COMPLETED"
        return f"Noted: {self.collected_fields['amount']} EUR for {self.collected_fields['reason']}"


class Help(StandardAgent):
    """Answers everything else."""

    async def on_running(self, msg: Message) -> str:
        self.status = "COMPLETED"
        return "I file trips and expenses. Say what you need."


async def main(user: str) -> None:
    router = ModelRouter(OpenAICompatible("gpt-4o-mini")) if os.environ.get("OPENAI_API_KEY") else None
    async with SQLiteCheckpointStorage("forms.db") as storage:
        manager = CheckpointManager(storage)
        desk = Orchestrator(
            [TravelRequest, Expenses, Help], checkpoint_manager=manager, auto_checkpoint=True, router=router
        )
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                print(await desk.handle_message(user, line.strip()), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ann"))
