"""The contract of session memory."""

from __future__ import annotations

from perdure.checkpointer.directory import Directory
from perdure.checkpointer.mending import Mending
from perdure.checkpointer.values import Values


class BaseCheckpointer(Mending, Directory, Values):
    """Session memory: states, messages and threads, each call with a twin for synchronous code.

    Subclass one of its kinds to watch or change what it does: twins, background writes and other calls go through
    what you override.
    """
