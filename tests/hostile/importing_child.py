"""A process that imports files until it is killed: `python -m tests.hostile.importing_child URL FOLDER`."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from perdure.sync import Perdure


def main() -> None:
    url, folder = sys.argv[1:]
    with Perdure.open(url) as store:
        print("ready", flush=True)
        for number in itertools.count():
            store.import_(Path(folder) / "job", user="alice", to=f"t{number}")


if __name__ == "__main__":
    main()
