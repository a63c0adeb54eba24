"""What an extra needs: the same here as in the package's description, and told in one line when it is too old."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perdure.core.extras import OLDEST, is_older, missing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What a package is imported as, where that is another name.
MODULES = {
    "opentelemetry-api": "opentelemetry",
    "pydantic-ai-slim": "pydantic_ai",
    "PyMySQL": "pymysql",
    "langgraph-checkpoint": "langgraph.checkpoint",
}
# Imports what each extra is for, after an old release was put before the installed one.
USES = {
    "config": "import perdure.sync as p; p.Perdure.from_config('c.yaml')",
    "postgres": "import perdure.sync as p; p.Perdure.open('postgresql://nobody@127.0.0.1:1/x')",
    "mysql": "import perdure.sync as p; p.Perdure.open('mysql://nobody@127.0.0.1:1/x').threads()",
    "redis": "import perdure.sync as p; p.Perdure.open('memory://', hot='redis://127.0.0.1:1').thread('t').save({})",
    "webhooks": "from perdure.runtime.sending import Sender; Sender()",
    "forms": "from perdure.core.answers import expects_of, problem; print(problem(expects_of({'type': 'object'}), {}))",
    "openai-sdk": "import perdure.adapters.openai",
    "pydantic-ai": "import perdure.adapters.pydantic_ai",
}


def parts(requirement: str) -> tuple[str, str]:
    found = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=([0-9.]+)", requirement)
    assert found, requirement
    return found[1], found[2]


def test_what_is_needed_is_what_is_installed() -> None:
    extras = {name: each for name, each in PROJECT["optional-dependencies"].items() if name != "all"}
    assert {name: dict(map(parts, each)) for name, each in extras.items()} == OLDEST


def test_all_is_every_extra() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    named = everything.removeprefix("perdure[").removesuffix("]").split(",")
    assert sorted(named) == sorted(OLDEST)


def test_every_extra_is_used() -> None:
    """Nothing is installed that no code imports."""
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for name, needs in OLDEST.items():
        assert re.search(rf'"{name}"|extra `{name}`', code), name
        for package in needs:
            module = MODULES.get(package, package.replace("-", "_"))
            assert re.search(rf"(import|from) {re.escape(module)}\b", code), package


@pytest.mark.parametrize(
    ("installed", "oldest", "older"),
    [
        ("1.0", "1.2.0", True), ("1.1.99", "1.2.0", True), ("0.9", "1.0", True), ("1.2.0rc1", "1.2.0", False),
        ("1.2", "1.2.0", False), ("1.2.0", "1.2", False), ("1.10", "1.9", False), ("2", "1.9.9", False),
        ("2026.1", "25.1", False), ("4.0.0", "4.1.1", True), ("1.2.0.post1", "1.2.0", False), ("unknown", "1.0", False),
        ("", "1.0", False), ("0+unknown", "1.0", True), ("9" * 5000, "1.0", False), ("0!1.0", "1.2", True),
    ],
)  # fmt: skip
def test_releases_are_compared_by_their_numbers(installed: str, oldest: str, older: bool) -> None:
    assert is_older(installed, oldest) is older


def test_what_is_installed_and_new_enough_is_not_blamed() -> None:
    error = missing("a webhook", "webhooks")
    assert str(error) == "a webhook needs an optional part: pip install 'perdure[webhooks]'"
    assert (error.extra, error.package, error.installed, error.oldest) == ("webhooks", "", "", "")


def installed(folder: Path, package: str, release: str) -> None:
    """The description of a release, found before that of the one that is there."""
    about = folder / f"{package.replace('-', '_')}-{release}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {release}\n")


@pytest.mark.parametrize("extra", USES)
def test_a_release_that_is_too_old_is_named_with_the_one_that_is_needed(extra: str, tmp_path: Path) -> None:
    package, oldest = next(iter(OLDEST[extra].items()))
    installed(tmp_path, package, "0.0.9")
    (tmp_path / "c.yaml").write_text("storage: {sessions: memory://}")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{USES[extra]}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    told = f"needs {package} {oldest} or newer, but 0.0.9 is installed: pip install -U 'perdure[{extra}]'"
    assert done.returncode == 1
    assert told in done.stderr.splitlines()[-1]


def test_a_command_line_that_is_too_old_is_named(tmp_path: Path) -> None:
    installed(tmp_path, "cyclopts", "2.9.9")
    (tmp_path / "cyclopts").mkdir()
    (tmp_path / "cyclopts" / "__init__.py").write_text("class App: ...\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from perdure.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, "version"], capture_output=True, text=True)
    told = (
        "error: the command line needs cyclopts 4.0 or newer, but 2.9.9 is installed: pip install -U 'perdure[cli]'\n"
    )
    assert (done.returncode, done.stderr) == (1, told)
