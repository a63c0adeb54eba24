"""These tests run where LangGraph is installed: in an environment of its own."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("langgraph") else ["test_*.py"]
