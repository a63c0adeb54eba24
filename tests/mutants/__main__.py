"""`python -m tests.mutants`: break the code on purpose, one promise after the other; the tests have to notice."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.faults import FAULTS
from tests.mutants.hunt import failing, hunt

AT_ONCE = 2


def main(names: list[str]) -> int:
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        wheres = sorted({FAULTS[name].where for name in names})
        if broken := "".join(pool.map(failing, wheres)):
            print(broken, "\nThese fail while nothing is planted: repair them first.")
            return 2
        verdicts = dict(zip(names, pool.map(_told, names), strict=True))
    missed = [name for name, verdict in verdicts.items() if verdict != "caught"]
    print(f"\n{len(names) - len(missed)} of {len(names)} faults caught in {time.monotonic() - began:.0f} s")
    return 1 if missed else 0


def _told(name: str) -> str:
    verdict = hunt(name)
    print(f"{name:40} {verdict}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main([name for name in FAULTS if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]))
