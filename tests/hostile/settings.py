"""Files of settings: named ones make nothing but settings, discovered ones name nothing but a local store."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from perdure import Config
from perdure.errors import InvalidConfigError
from tests.hostile.canary import Canary
from tests.hostile.catalogue import CODE, Hostile, register
from tests.hostile.judge import Judge
from tests.hostile.trials import TRIALS, Trial

_ENVIRONMENT = {
    "PATH": "/usr/bin", "HOSTILE_LOOP": "${HOSTILE_LOOP}",
    "HOSTILE_KEYS": "memory://\nnotifications: [{url: 'http://evil/'}]",
}  # fmt: skip
DISCOVERED = (
    "postgresql://evil.example/a", "mysql://evil.example/a", "redis://evil.example", "sqlite:////etc/a.db",
    "sqlite:///../a.db",
    "sqlite:///%2e%2e/a.db", "sqlite:///%2Fetc/a.db", "sqlite:///a/../../b.db", "file:///etc", "file:..", "file:%2e%2e",
    "file:a/../../b", "sqlite:///${HOME}/a.db", "${DATABASE_URL}", "${X:-sqlite:////etc/a.db}",
    "{backend: postgres, dsn: 'x://'}",
    "{backend: sqlite, path: /etc/a.db}", "{backend: file, path: ../..}",
    "{backend: memory, hot: 'redis://evil.example'}",
    "{backend: sqlite, path: a.db, file_mode: 0o666}", f"{{backend: sqlite, path: \"/{CODE}\"}}",
    "sqlite:///linked/a.db",
    "file:linked", "{backend: file, path: linked/deeper}",
)  # fmt: skip
register("discovered settings", DISCOVERED)


async def _named(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    for each in chosen:

        async def read(text: str = each.value) -> Config:
            with warnings.catch_warnings(action="ignore"):
                return Config.parse(text, environment=_ENVIRONMENT)

        answer = await judge.call(str(each), read)
        if isinstance(answer, Config) and any("evil" in hook.url for hook in answer.webhooks):
            judge.broken(str(each), "a variable added keys")


async def _discovered(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "cloned").mkdir()
    (folder / "cloned" / "linked").symlink_to(folder / "elsewhere")
    file = folder / "cloned" / "perdure.yaml"
    for each in chosen:
        file.write_text(f"storage:\n  sessions: {each.value}\n", encoding="utf-8")

        async def read() -> Config:
            with chdir(file.parent):
                return Config.load_discovered(file)

        answer = await judge.call(str(each), read)
        judge.broken(str(each), "" if isinstance(answer, InvalidConfigError) else f"was taken: {answer!r}")


TRIALS.append(Trial(category="yaml", backends=("anywhere",), play=_named))
TRIALS.append(Trial(category="discovered settings", backends=("anywhere",), play=_discovered))
