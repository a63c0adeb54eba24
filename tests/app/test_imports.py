"""`from perdure import Perdure` brings what a program needs that saves and loads, and nothing that takes long."""

from __future__ import annotations

import site
import subprocess
import sys
from pathlib import Path

import perdure

HEAVY = {
    "argparse", "asyncio", "backports.zstd", "compression.zstd", "concurrent.futures", "ctypes", "dataclasses",
    "difflib", "email", "http", "json", "logging", "multiprocessing", "pathlib", "psycopg", "queue", "random", "redis",
    "shutil", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "urllib.parse",
}  # fmt: skip
LATE = {
    "app.analytics", "app.asking", "app.branches", "app.comparing", "app.copying", "app.exporting", "app.importing",
    "app.maintenance", "app.pointing", "app.speaking", "app.weighing", "checkpoints.newest", "checkpoints.points",
    "checkpoints.pruning", "checkpoints.repairing", "checkpoints.verifying", "core.comparison", "core.retention",
    "core.retention_policy", "core.search", "runtime", "sessions", "storage.file", "storage.memory", "storage.ports",
    "storage.sql", "sync",
}  # fmt: skip
MOST = 65  # modules of ours; each takes about 0.5 ms of the 100 there are


def loaded_by(line: str) -> set[str]:
    """Without site, as the benchmark does: what an environment loads by itself does not count."""
    paths = [str(Path(perdure.__file__).parents[1]), *site.getsitepackages()]
    code = f"import sys; sys.path += {paths!r}; {line}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_store_loads_nothing_heavy() -> None:
    loaded = loaded_by("from perdure import Perdure")
    ours = {name for name in loaded if name.split(".")[0] == "perdure"}
    assert loaded & (HEAVY | {f"perdure.{name}" for name in LATE}) == set()
    assert "perdure.checkpoints.engine" in ours
    assert len(ours) <= MOST


def test_importing_the_package_alone_loads_no_other_module_of_it() -> None:
    assert {name for name in loaded_by("import perdure") if name.split(".")[0] == "perdure"} == {"perdure"}


def test_every_name_of_the_package_can_be_imported() -> None:
    assert loaded_by("from perdure import *") >= {"perdure.app.store", "perdure.flowagent.agent"}
