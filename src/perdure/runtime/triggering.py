"""When the loop of an agent saves checkpoints: nowhere by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.runtime.run import Run


class Triggers:
    """Asked by the loop at its three places. A kind that is returned is that of a checkpoint with the write there."""

    async def before_model(self, run: Run) -> None:
        """The model is about to be asked."""

    def after_turn(self, run: Run) -> str | None:
        """The model answered, and its message is about to be appended."""
        return None

    def after_tools(self, run: Run) -> str | None:
        """The tools of a turn are recorded, and their results are about to be appended."""
        return None
