"""`perdure init DIR`: a project folder with a configuration, an agent, a test and a README, ready to run offline."""

from __future__ import annotations

import os
import shlex
from importlib.resources import files

from perdure.app.config.config import Config
from perdure.cli.output import write
from perdure.core.errors import InvalidInputError, StorageIOError
from perdure.core.printable import printable
from perdure.sync import Perdure

# The files of a project, each with the name of its template in the package.
FILES = {
    "perdure.yaml": "perdure.yaml.txt",
    "agent.py": "agent.py.txt",
    "test_agent.py": "test_agent.py.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}


def init(folder: str = ".", /) -> None:
    """Make a project folder: a configuration, an agent, a test and a README, ready to run without a network.

    A folder that has any of these files is refused, and nothing is written. The store that the configuration names is
    made, and the configuration is trusted, so that every command in the folder finds both.

    Parameters
    ----------
    folder
        The folder; it is made if it is not there.
    """
    target = os.path.abspath(folder)
    _check_free(target, folder)
    try:
        os.makedirs(target, exist_ok=True)
        for name, template in FILES.items():
            text = (files("perdure.cli") / "project" / template).read_text(encoding="utf-8")
            # "x": a file that somebody makes at the same moment is not replaced either.
            with open(os.path.join(target, name), "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as exc:
        raise StorageIOError(target, exc.strerror or str(exc)) from exc
    config = Config.trust(os.path.join(target, "perdure.yaml"))
    with Perdure.open(config.address) as store:
        store.setup()
    write(f"made               {printable(os.path.relpath(target))}: {', '.join(FILES)}")
    inside = f"cd {shlex.quote(folder)} && " if target != os.getcwd() else ""
    write(f"next: {inside}python agent.py")


def _check_free(target: str, folder: str) -> None:
    if os.path.exists(target) and not os.path.isdir(target):
        raise InvalidInputError(f"{folder} is a file; name a folder: perdure init NEW_FOLDER")
    there = [name for name in FILES if os.path.lexists(os.path.join(target, name))]
    if there:
        raise InvalidInputError(
            f"{folder} has {', '.join(there)} already; name another folder: perdure init NEW_FOLDER"
        )
