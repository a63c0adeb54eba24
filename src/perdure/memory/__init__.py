"""Long-term memory: facts about a user that are remembered across threads.

`MemoryManager(store, user="alice")` adds, finds, corrects and deletes them, and fills `{memory}` in prompts.
"""

from __future__ import annotations

from perdure.memory.agents import AgentMemory
from perdure.memory.embedders import Embedder, OpenAIEmbedder, WordLlamaEmbedder
from perdure.memory.extraction import EXTRACTION_PROMPT, PATTERNS, Pattern
from perdure.memory.facts import Fact, Source
from perdure.memory.manager import MemoryManager, MemoryStats
from perdure.memory.ranking import Hit, Signals

__all__ = [
    "EXTRACTION_PROMPT",
    "PATTERNS",
    "AgentMemory",
    "Embedder",
    "Fact",
    "Hit",
    "MemoryManager",
    "MemoryStats",
    "OpenAIEmbedder",
    "Pattern",
    "Signals",
    "Source",
    "WordLlamaEmbedder",
]
