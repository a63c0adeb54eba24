"""What somebody types in the first hour: the install line, each block as a program of its own, and what agents read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.docs.llms import LLMS, llms_text
from tests.docs.pages import PROGRAMS, ROOT, Block, blocks, name_of
from tests.docs.test_examples import SAID

BLOCKS = [block for page in PROGRAMS for block in blocks(page) if block.language == "python"]
RESULTS = ROOT / "benchmarks" / "results"
_TIMES = re.compile(r"([\d.]+)×")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{name_of(block.page)}:{block.line}")
def test_a_block_alone_is_a_program_that_runs_and_runs_again(block: Block, tmp_path: Path) -> None:
    """As a file in an empty folder, with the same answers both times."""
    (tmp_path / "example.py").write_text(block.text, encoding="utf-8")
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
        expected = [said.strip() for said in SAID.findall(block.text)]
        assert [line for line in done.stdout.splitlines() if line in expected] == expected


def test_the_ten_lines_are_hardly_more_than_ten() -> None:
    lines = [line for line in BLOCKS[0].text.splitlines() if line.strip()]
    assert len(lines) <= 12


def test_the_install_line_works_and_the_wheel_has_what_people_need(tmp_path: Path) -> None:
    """The very line of the README, and of Getting started, in an environment that has only what is downloaded."""
    lines = {block.text.strip() for page in PROGRAMS for block in blocks(page) if "pip install" in block.text}
    (line,) = lines
    programs = new_environment(tmp_path / "venv")
    env = {
        **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
    env.pop("PYTHONPATH", None)
    done = subprocess.run(["sh", "-c", line], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for words, answer in ((["perdure", "version"], "0."), (["perdure", "init", "agent"], "next: cd agent")):
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        assert answer in done.stdout
    code = "import perdure; from pathlib import Path; print(Path(perdure.__file__).with_name('SKILL.md').resolve(True))"
    told = subprocess.run(
        ["python", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    ).stdout
    assert told.startswith(str(tmp_path))


def new_environment(folder: Path) -> Path:
    """An environment with the packages of this one, as if they had been downloaded, but without Perdure."""
    venv.EnvBuilder(symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    shared = folder / "downloaded"
    shared.mkdir()
    for each in Path(pytest.__file__).parents[1].iterdir():
        if "perdure" not in each.name and each.suffix != ".pth":
            (shared / each.name).symlink_to(each)
    (site / "downloaded.pth").write_text(f"{shared}\n")
    return folder / "bin"


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    """Each ratio of the comparison stands in the table that its row links to."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## What it does that others do not")[1]
    measured = "\n".join(each.read_text(encoding="utf-8") for each in RESULTS.rglob("*.md") if each.name != "bars.md")
    quoted = set(_TIMES.findall(section.split("\n## ")[0]))
    assert len(quoted) > 8
    assert quoted <= set(_TIMES.findall(measured))


def test_llms_txt_lists_every_page() -> None:
    """`python -m tests.docs.llms` writes it."""
    assert LLMS.read_text(encoding="utf-8") == llms_text()
    for link in re.findall(r"\]\(([^)]+)\)", llms_text()):
        assert (LLMS.parent / link).resolve().exists(), link


def test_python_dash_m_is_the_same_as_the_command(tmp_path: Path) -> None:
    calls = [[sys.executable, "-m", "perdure"], [str(Path(sys.executable).with_name("perdure"))]]
    with ThreadPoolExecutor() as pool:
        found = pool.map(
            lambda words: subprocess.run([*words, "--help"], capture_output=True, timeout=60).stdout, calls
        )
    one, other = found
    assert one == other != b""
