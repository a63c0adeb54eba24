"""How many frames and files of Perdure an operation goes through: `python -m benchmarks.frames [postgresql://…]`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from types import FrameType
from typing import Any

import perdure
from perdure.sync import Perdure

_HOME = os.path.dirname(perdure.__file__)
_INSIDE = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")  # 3.12 has most of them in no frame


class Walk:
    """The functions of Perdure that were entered, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def of(self, work: Callable[[], Any]) -> Walk:
        sys.setprofile(self._entered)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self

    def _entered(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_HOME) and code.co_name not in _INSIDE:
            self.names.append(f"{os.path.relpath(code.co_filename, _HOME)}:{code.co_qualname}")

    @property
    def files(self) -> int:
        return len({name.partition(":")[0] for name in self.names})


def walks(url: str) -> dict[str, Walk]:
    """What is gone through by one `update`, `save` and load of a fresh handle, once everything is warm."""
    with Perdure.open(url) as store:
        thread = store.thread("frames")
        state: dict[str, Any] = {"messages": [{"role": "user", "text": f"message {n}"} for n in range(10)], "n": 0}
        for n in range(20):
            thread.save(state)
            thread.update(set={"n": n})
        state = thread.load()
        state["messages"].append({"role": "user", "text": "one more"})
        return {
            "update": Walk().of(lambda: thread.update(set={"n": -1})),
            "save": Walk().of(lambda: thread.save(thread.load() | {"n": -2})),
            "load by a fresh handle": Walk().of(lambda: store.thread("frames").load()),
        }


def main() -> None:
    """Print the counts; with `-v` every frame."""
    given = [each for each in sys.argv[1:] if each != "-v"]
    with tempfile.TemporaryDirectory() as folder:
        found = walks(given[0] if given else f"sqlite:///{folder}/frames.db")
    for name, walk in found.items():
        print(f"{name}: {len(walk.names)} frames in {walk.files} files")
        if "-v" in sys.argv:
            print("\n".join(f"  {each}" for each in walk.names))


if __name__ == "__main__":
    main()
