"""Calling what users wrote: hooks, handlers and factories may be plain functions or coroutines."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any


async def settled(value: Any) -> Any:
    """What a call came to, waited for where it has to be."""
    return await value if isawaitable(value) else value
