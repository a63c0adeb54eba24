"""Telling when a writer was last answered by its server: also a lost race is an answer, after which a write goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from perdure.core.errors import ConflictError
from perdure.storage.sql.store import SqlStorage
from tests.crash.outage_journal import Board

WRITER: ContextVar[int] = ContextVar("WRITER")  # who makes the call, on a thread or in a task


def tell_answers(board: Board) -> None:
    """From now on every answer to a write or a read of a state is told."""
    for name in ("append", "restore"):
        setattr(SqlStorage, name, _telling(board, getattr(SqlStorage, name)))


def _telling(board: Board, call: Callable[..., Any]) -> Callable[..., Any]:
    async def telling(*values: Any, **options: Any) -> Any:
        try:
            answer = await call(*values, **options)
        except ConflictError:
            board.answered(WRITER.get())
            raise
        board.answered(WRITER.get())
        return answer

    return telling
