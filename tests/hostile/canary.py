"""Notices when data is executed: Python's audit events while a hostile input is being worked on.

Nothing that a store does for an input starts a program, unpickles, or compiles and imports what the input names. The
hook cannot be taken out again, so it lives in the child process of a campaign.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from tests.hostile.catalogue import CANARY

_NEVER = frozenset({
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile", "subprocess.Popen",
    "pty.spawn",
    "pickle.find_class", "code.__new__", "ctypes.dlopen", "webbrowser.open",
})  # fmt: skip
_NAMED = frozenset({"compile", "exec", "import", "open", "os.mkdir", "os.rename"})


class Canary:
    """What was executed, while it is armed."""

    def __init__(self) -> None:
        self.fired: list[str] = []
        self._armed = False
        sys.addaudithook(self._hear)

    @contextmanager
    def armed(self) -> Generator[None]:
        self._armed = True
        try:
            yield
        finally:
            self._armed = False

    def fire(self, what: str) -> None:
        """A tool, a handler or a constructor says that it was called."""
        self.fired.append(what)

    def _hear(self, event: str, values: tuple[Any, ...]) -> None:
        if self._armed and (event in _NEVER or (event in _NAMED and _names_it(values)) or _unmarshals(event)):
            self.fired.append(f"{event} {values!r:.200}")


def _unmarshals(event: str) -> bool:
    """Whether code is read from data: importing a module reads it from a cache of Python's own."""
    return event == "marshal.loads" and "importlib" not in sys._getframe(2).f_code.co_filename


def _names_it(values: tuple[Any, ...]) -> bool:
    return any(CANARY in _text(each) for each in values)


def _text(value: Any) -> str:
    if isinstance(value, CodeType):
        return f"{value.co_names} {value.co_consts} {value.co_filename}"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""
