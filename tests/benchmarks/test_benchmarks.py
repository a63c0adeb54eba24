"""The benchmarks run, their workload is the same for everybody, and their verdicts are those of the bars."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks import frames
from benchmarks.__main__ import run
from benchmarks.backends import BACKENDS
from benchmarks.databases import OUR_PAGE
from benchmarks.parts import requests
from benchmarks.report import Figure
from benchmarks.savers import children
from benchmarks.scale import Bench, Scale
from benchmarks.workload import VARIANTS, Variant, final_state, opening_context, turns
from perdure.storage.sqlite.connection import PAGE
from perdure.testing.servers import MariadbServer, PostgresServer, require

TINY = Scale(
    quick=True, updates=6, marks=(3, 6), width=3, grown=12, repeats=2, rounds=2, each=1, traced=1, lengths=(3,),
    messages=1000,
)  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_workload_has_the_sizes_the_bars_are_about_and_is_the_same_every_time(variant: Variant) -> None:
    made = turns(variant, 20)
    sizes = [len(msgspec.msgpack.encode(turn.message)) for turn in made]
    assert made == turns(variant, 20)
    assert all(1400 < size < 1700 for size in sizes)
    assert 3900 < len(msgspec.msgpack.encode(opening_context(variant))) < 4300
    assert final_state(variant, 20)["messages"] == [turn.message for turn in made]


@pytest.mark.parametrize("part", ["update", "save", "bytes", "restore", "list", "clients", "search"])
def test_every_part_finds_figures_and_writes_them(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.parts.whole.langgraph", lambda *_: None)
    monkeypatch.setattr("benchmarks.fsyncs.per_save", lambda _: {})
    report = run(TINY, [part])
    report.write(tmp_path)
    written = json.loads((tmp_path / "latest.json").read_text())
    assert report.figures
    assert [figure["figure"] for figure in written["figures"]] == [figure.name for figure in report.figures]
    assert all(figure.name in (tmp_path / "latest.md").read_text() for figure in report.figures)


def test_a_run_on_a_folder_of_files_finds_figures(tmp_path: Path) -> None:
    backend = BACKENDS["file"]
    report = run(replace(TINY, threads=100, entries=300), list(backend.parts), backend)
    report.write(tmp_path)
    written = json.loads((tmp_path / "file.json").read_text())
    assert [figure["figure"] for figure in written["figures"]] == [figure.name for figure in report.figures]
    assert len(report.figures) == 8


@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_a_run_on_a_server_finds_figures_and_writes_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.postgres.lab.PostgresServer", lambda **_: PostgresServer(durable=False))
    monkeypatch.setattr("benchmarks.mysql.lab.MariadbServer", lambda **_: MariadbServer(durable=False))
    monkeypatch.setattr("benchmarks.peers.child.is_installed", lambda *_: False)
    monkeypatch.setattr("benchmarks.postgres.syncs.is_installed", lambda *_: False)
    monkeypatch.setattr("benchmarks.parts.requests.is_ready", lambda: False)
    backend = BACKENDS[name]
    report = require(lambda: run(TINY, list(backend.parts), backend))
    report.write(tmp_path)
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert report.figures
    assert [figure["figure"] for figure in written["figures"]] == [figure.name for figure in report.figures]
    assert "raw" in report.fsyncs


# Each starts a dozen processes that import LangGraph: one is enough here, `make savers` has both.
@pytest.mark.parametrize("name", ["sqlite", "postgres"] if os.environ.get("PERDURE_EXAMINE") == "all" else ["sqlite"])
def test_both_savers_of_langgraph_are_driven_alike(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not children.is_ready():
        pytest.skip(children.NO_PEER)
    monkeypatch.setattr("benchmarks.postgres.lab.PostgresServer", lambda **_: PostgresServer(durable=False))
    monkeypatch.setattr("benchmarks.fsyncs.can_trace", lambda: False)
    report = require(lambda: run(replace(TINY, repeats=1), ["langgraph"], BACKENDS[name]))
    report.write(tmp_path)
    assert len(report.figures) == (18 if name == "sqlite" else 20)
    assert all(figure.value for figure in report.figures)
    assert all(figure.name in next(tmp_path.glob("*.md")).read_text() for figure in report.figures)


def test_requests_of_both_sides_are_driven_alike(tmp_path: Path) -> None:
    if not children.is_ready():
        pytest.skip(children.NO_PEER)
    found: list[Figure] = []
    bench = Bench(replace(TINY, repeats=7), tmp_path, found.append, note=found.append)  # type: ignore[arg-type]
    urls = {side: f"sqlite:///{tmp_path}/{side}.db" for side in (children.OURS, children.THEIRS)}
    requests.compare(bench, "load and save", urls.__getitem__, 4, "windowed", "messages", bar=1.0, command="request")
    assert found[0].value
    assert {side: summary.count for side, summary in found[0].sides.items()} == dict.fromkeys(urls, 7)


def test_a_walk_counts_frames_and_files(tmp_path: Path) -> None:
    """The straight way stays straight: an update on SQLite, in a warm process."""
    walk = frames.walks(f"sqlite:///{tmp_path}/frames.db")["update"]
    assert 20 < len(walk.names) <= 45


def test_a_bar_is_judged_by_its_sense_and_not_at_all_when_it_was_not_measured() -> None:
    assert Figure(name="a", value=1.0, bar=1.0).met is True
    assert Figure(name="a", value=1.1, bar=1.0).met is False
    assert Figure(name="a", value=3.0, bar=3.5, sense="≥").met is False
    assert Figure(name="a", value=None, bar=1.0).met is None
    assert Figure(name="a", value=1.0, bar=2.0, judged=False).met is None


def test_our_side_has_pages_of_the_size_that_we_make() -> None:
    assert OUR_PAGE == PAGE
