"""Our saver for LangGraph beside LangGraph's own, through LangGraph's interface: `make bench PEER=langgraph`."""

from __future__ import annotations

from benchmarks.report import Figure
from benchmarks.savers import playing, reading, syncs, writing
from benchmarks.savers.children import NO_PEER, is_ready
from benchmarks.savers.lab import Table
from benchmarks.scale import Bench

NOTES = (
    "Both savers through BaseCheckpointSaver, each in a process of its own, timed there; both in one environment. W as"
    " a graph with one node in a loop hands it to put(): new lists and dicts each turn, versions by each saver's own"
    " get_next_version(), `__start__` among the versions for ever. put_writes() is left out on both sides.",
    "Objects: messages of LangChain's, HumanMessage and AIMessage in turn, instead of dicts.",
    "Fresh process: a new process for every sample, both sides in turn; the saver is made, connected and its layout"
    " checked before the clock starts. The same with opening inside is shown beside it. Importing LangGraph and"
    " the saver's module is in neither, what a saver imports by itself when it opens is in the latter.",
    "Warm: the process that put everything asks for the newest checkpoint again.",
    "List: list() of the newest 50, every one of them whole, as LangGraph's interface has it.",
)
_ON_SQLITE = (
    "SqliteSaver as from_conn_string makes it: it sets WAL mode itself and leaves synchronous at SQLite's default,"
    " FULL, as ours has. WAL files were grown beforehand on both sides. Bytes: the closed database."
)
_ON_POSTGRES = (
    "8 writers (threads): one synchronous PerdureSaver, beside one PostgresSaver on a ConnectionPool of 8; (tasks): one"
    " PerdureSaver by aput(), beside AsyncPostgresSaver on an AsyncConnectionPool of 8. Every writer has a thread of"
    " its own. Bytes: pg_total_relation_size of all tables, not vacuumed."
)


def run(bench: Bench) -> None:
    """All rows, once with dicts for messages and once with objects."""
    if not is_ready():
        bench.found(Figure(name="PerdureSaver beside LangGraph's", value=None, note=NO_PEER))
        return
    for note in (*NOTES, _ON_SQLITE if bench.server is None else _ON_POSTGRES):
        bench.note(note)
    for kind in ("dicts", "objects"):
        with Table(bench, kind) as table:
            playing.run(bench, table)
            reading.run(bench, table)
            playing.sizes(bench, table)
    if bench.server is not None:
        writing.run(bench)
    bench.fsyncs |= syncs.per_put(bench)
