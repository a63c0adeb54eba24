"""LangGraph on Perdure (extra `langgraph`): its checkpoints are points of threads, and so is its memory."""

from perdure.adapters.langgraph.saver import PerdureSaver  # isort: skip  # says which extra is missing
from perdure.adapters.langgraph.importing import import_from

__all__ = ["PerdureSaver", "import_from"]
