"""Whether a tool needs somebody's approval, and asking for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.runtime.decisions import Decision
    from perdure.runtime.run import Run


async def approve(
    run: Run, tool_name: str, args: Mapping[str, Any], *, required: bool, prompt: str | None
) -> Decision | None:
    """The decision about a tool that an agent wants to run; None when nobody has to be asked."""
    if not required:
        return None
    return await run.pause(tool_name, ask=prompt or f"Run {tool_name}?", args=args)
