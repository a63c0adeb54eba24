"""The pages of the documentation, and the pieces of them that tests look at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "src" / "perdure" / "SKILL.md"
PAGES = [ROOT / "README.md", SKILL, *sorted((ROOT / "docs").rglob("*.md"))]
# Each block of Python on these pages is a program of its own.
PROGRAMS = [ROOT / "README.md", ROOT / "docs" / "getting-started.md", SKILL]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(page, text[: m.start(2)].count("\n") + 1, m[1], m[2]) for m in _FENCE.finditer(text)]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The names that links to parts of a page may use, as GitHub makes them."""
    titles = [re.sub(r"[`*]", "", title).strip().lower() for title in _HEADING.findall(prose(page))]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}
