"""Text that a terminal would obey, or that nobody would see: each is escaped before a person reads it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from perdure.core.printable import printable, printable_json
from tests.cli.test_hostile_output import ATTACK
from tests.hostile.canary import Canary
from tests.hostile.catalogue import Hostile, register
from tests.hostile.judge import Judge
from tests.hostile.trials import TRIALS, Trial

_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
TEXTS = {
    "all of it": ATTACK,
    **{f"U+{ord(char):04X}": f"a{char}b" for char in dict.fromkeys(ATTACK) if not char.isascii() or char < " "},
    "a line that is pushed away": f"thanks{' ' * 5000}!",
    "marks that cover the lines above": "a" + "\u0301" * 500,
}
register("terminal", TEXTS)


async def _play(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    for each in chosen:

        async def show(text: str = each.value) -> tuple[str, str]:
            return printable(text), printable_json(json.dumps(text, ensure_ascii=False))

        plain, for_programs = await judge.call(str(each), show)
        raw = {char for char in plain + for_programs if unicodedata.category(char) in _OBEYED}
        judge.broken(str(each), f"{sorted(raw)!r} is printed as it is" if raw else "")
        judge.broken(str(each), "" if plain != each.value else "nothing was escaped")
        judge.broken(str(each), "" if json.loads(for_programs) == each.value else "programs get another text")


TRIALS.append(Trial(category="terminal", backends=("anywhere",), play=_play))
