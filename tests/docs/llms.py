"""Writes docs/llms.txt, the list of pages for language models: `python -m tests.docs.llms`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT

LLMS = ROOT / "docs" / "llms.txt"
_DOCS = ROOT / "docs"
_FOLDERS = {"Guides": "guides", "Concepts": "concepts", "Reference": "reference"}
_OPTIONAL = ("storage-format.md", "faults.md", "decisions/index.md")
_HEAD = """\
# Perdure

> The durable layer under AI agents, a Python library: runs, tools, approvals, state and messages of agents are kept in
> an append-only log on SQLite, PostgreSQL, MySQL or files, and continue after kill -9, deploys and long waits.

Read SKILL.md first: how to use Perdure right and what never to do. The installed package has it as `perdure/SKILL.md`.

## Start

- [README](../README.md): what it is, ten lines, comparison
- [SKILL.md](../src/perdure/SKILL.md): rules for coding agents
"""


def llms_text() -> str:
    """What the file says."""
    parts = [_HEAD + _line(_DOCS / "getting-started.md")]
    for title, folder in _FOLDERS.items():
        parts.append(f"## {title}\n\n" + "".join(map(_line, sorted((_DOCS / folder).glob("*.md")))))
    parts.append("## Optional\n\n" + "".join(_line(_DOCS / name) for name in _OPTIONAL))
    return "\n".join(parts)


def _line(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert title, page
    pieces = re.split(r"\n\s*\n", text[title.end() :])
    first = next(
        (each for each in pieces if each.strip() and not each.strip().startswith(("#", "```", "|", "!", "-"))), ""
    )
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(first.split())).replace("**", "")
    sentence = re.split(r"(?<=[.:])\s", plain)[0].rstrip(":.")
    return f"- [{title[1].replace('`', '')}]({page.relative_to(_DOCS).as_posix()}): {sentence}\n"


if __name__ == "__main__":
    LLMS.write_text(llms_text(), encoding="utf-8")
