"""LangGraph on Perdure (extra `langgraph`): its checkpoints are points of threads, and so is its memory."""

from perdure.adapters.langgraph.saver import PerdureSaver
from perdure.adapters.langgraph.store import PerdureStore

__all__ = ["PerdureSaver", "PerdureStore"]
