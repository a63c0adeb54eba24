from __future__ import annotations
FAILS: dict[str, set[str]] = {}
NOT_OFFERED: dict[str, set[str]] = {}
BY_CHANCE: set[str] = set()
