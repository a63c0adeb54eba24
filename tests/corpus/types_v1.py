"""The registered classes of the first corpus, as they were."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass
class Task:
    name: str
    priority: int


class Mood(Enum):
    GOOD = "good"
