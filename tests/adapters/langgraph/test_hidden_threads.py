"""Threads that no list shows are stored data like any other: they are verified too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from perdure.adapters.langgraph import PerdureSaver, PerdureStore
from perdure.app.store import parts_of
from perdure.core.identity import reserved_of
from perdure.errors import InvalidIdError
from perdure.storage.drive import drive
from perdure.sync import Perdure
from perdure.sync.store import inside
from tests.cli.test_cli import perdure

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def fill(url: str, **options: Any) -> None:
    """A graph, a subgraph and a memory."""
    with PerdureSaver.open(url, **options) as saver, PerdureStore.open(url, **options) as memories:
        for ns in ("", "child:1"):
            config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns}}
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
        memories.put(("people",), "alice", {"city": "Paris"})


def seen(url: str, **options: Any) -> tuple[int, Any]:
    """How many checkpoints a thread has, and what is remembered of somebody."""
    with PerdureSaver.open(url, **options) as saver, PerdureStore.open(url, **options) as memories:
        item = memories.get(("people",), "alice")
        return len(list(saver.list(CONFIG))), item and item.value


def test_verify_sees_subgraphs_and_memories(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    fill(url)
    done = perdure("verify", url)
    assert done.returncode == 0
    assert "4 threads" in done.stdout  # the graph's, its subgraph's, those of a namespace of memories and of its name


def test_verify_of_a_namespace_sees_those_beside_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    fill(url, namespace="acme")
    fill(url, namespace="acme2", user="bob")
    assert "4 threads" in perdure("verify", url, "--namespace", "acme").stdout
    assert "0 threads" in perdure("verify", url, "--namespace", "").stdout
    assert "8 threads" in perdure("verify", url).stdout


def test_no_namespace_of_a_caller_leads_to_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    fill(url, namespace="acme")
    with Perdure.open(url) as store:
        stored = drive(parts_of(inside(store)[0]).storage.namespaces())
    assert sorted(each.kind for name in stored if (each := reserved_of(name))) == ["memory", "subgraphs"]
    for name in (*stored, "acme\x1estore", "acme\x1ft"):
        if name != "acme":
            for work in (fill, seen):
                with pytest.raises(InvalidIdError, match="holds a control character"):
                    work(url, namespace=name)
            with Perdure.open(url) as store, pytest.raises(InvalidIdError, match="holds a control character"):
                store.scope(user="alice", namespace=name)
    for place in ({"namespace": "acm"}, {"namespace": "acme", "user": "bob"}, {"namespace": "memory"}, {}):
        assert seen(url, **place) == (0, None)
    assert seen(url, namespace="acme") == (2, {"city": "Paris"})


def test_a_thread_id_leads_to_no_other_threads_subgraphs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    fill(url, namespace="acme")
    with PerdureSaver.open(url, namespace="acme") as saver:
        for thread in ("\x1ft", "acme\x1ft", "\x1fsubgraphs\x1facme\x1ft", "t\x1f"):
            for ns in ("", "child:1", "\x1ft", "acme\x1ft"):
                place: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
                assert saver.get_tuple(place) is None
                assert list(saver.list(place)) == []


def test_a_copy_of_a_namespace_or_of_a_thread_takes_them_along(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    for name in ("", "acme"):
        fill(url, namespace=name)
    for number, (chosen, remembered) in enumerate(
        [((), {"city": "Paris"}), (("--namespace", "acme"), {"city": "Paris"}), (("--thread", "t"), None)]
    ):
        target = f"sqlite:///{tmp_path}/copy{number}.db"
        assert perdure("copy", url, target, *chosen).returncode == 0
        assert seen(target, namespace="acme") == (2, remembered)


def test_forgetting_a_user_erases_graphs_subgraphs_and_memories(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    fill(url, user="alice")
    fill(url, user="bob")
    fill(url)
    with Perdure.open(url) as store:
        done = store.forget("alice", dry_run=False)
        assert done.is_complete
        counts = {kind: done.counts[kind] for kind in ("threads", "subgraphs", "checkpoints", "store_items")}
        assert counts == {"threads": 1, "subgraphs": 1, "checkpoints": 2, "store_items": 1}
        assert store.verify().ok
    assert seen(url, user="alice") == (0, None)
    assert seen(url, user="bob") == seen(url) == (2, {"city": "Paris"})
