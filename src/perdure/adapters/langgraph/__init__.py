"""LangGraph on Perdure (extra `langgraph`): its checkpoints are points of threads, and so is its memory."""

from perdure.adapters.langgraph.saver import PerdureSaver  # isort: skip  # says which extra is missing
from perdure.adapters.langgraph.exporting import export_to
from perdure.adapters.langgraph.importing import import_from
from perdure.adapters.langgraph.store import PerdureStore

__all__ = ["PerdureSaver", "PerdureStore", "export_to", "import_from"]
