"""The examination from a terminal: `python -m tests.adapters.langgraph [SAVER …]`, as Markdown with more than one."""

from __future__ import annotations

import asyncio
import sys

from perdure.testing.langgraph import beside, examine
from tests.adapters.langgraph.savers import SAVERS


def main(names: list[str]) -> None:
    reports = {name: asyncio.run(examine(SAVERS[name].make)) for name in names or SAVERS}
    print(beside(reports) if len(reports) > 1 else "\n".join(map(str, reports.values())))


if __name__ == "__main__":
    main(sys.argv[1:])
