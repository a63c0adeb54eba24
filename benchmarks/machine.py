"""What the figures were measured on; no names and no places."""

from __future__ import annotations

import hashlib
import os
import platform
import sqlite3
import subprocess
from pathlib import Path

import msgspec

import perdure


def describe(folder: str) -> dict[str, str | int]:
    """The machine and the versions that matter."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "load at start": round(os.getloadavg()[0], 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "msgspec": msgspec.__version__,
        "filesystem": _filesystem(folder),
        "source": source_digest(),
    }


def source_digest() -> str:
    """Which Perdure was measured: a digest of its source."""
    files = sorted(Path(perdure.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _filesystem(folder: str) -> str:
    found = subprocess.run(["df", "--output=fstype", folder], capture_output=True, text=True, check=False)
    return found.stdout.split()[-1] if found.returncode == 0 else "not shown"
