"""The pages name everything that exists, and nothing that does not."""

from __future__ import annotations

import builtins
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import perdure
import perdure.errors
import perdure.sync
from perdure.cli.commands import COMMANDS, OF_TWO_WORDS
from perdure.cli.problems import EXIT_CODES
from perdure.core.calls import Call, Failure, Intent, Outcome
from perdure.core.entries import EntryKind
from perdure.core.model_calls import ModelCalled
from perdure.core.pauses import Decided, Notified, Opened
from perdure.core.runs import Ended, Resumed, Started
from perdure.core.zoo import NAMES
from perdure.runtime.signals import Signal
from perdure.runtime.streaming import Streamed
from tests.docs.cli_reference import CLI, cli_page
from tests.docs.pages import PAGES, ROOT, anchors, blocks, links, name_of, prose
from tests.docs.reference import API, ERRORS, api_page, error_classes, errors_page
from tests.docs.signatures import methods, properties

_HELD = {"store": perdure.Perdure, "thread": perdure.Thread, "branch": perdure.Thread, "point": perdure.Checkpoint,
         "Perdure": perdure.Perdure, "Thread": perdure.Thread}  # fmt: skip
_ATTRIBUTE = re.compile(r"`(?:await )?(store|thread|branch|point|Perdure|Thread)\.(\w+)")
_ERROR = re.compile(r"\b([A-Z]\w*Error)\b")
_DOTTED = re.compile(r"`(perdure(?:\.\w+)+)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, part = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)}: {link}"
        assert not part or part in anchors(target), f"{name_of(page)}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_what_does_not_exist(page: Path) -> None:
    text = prose(page)
    for held, name in _ATTRIBUTE.findall(text):
        known = hasattr(_HELD[held], name) or f"{held}.{name}" in set(EntryKind)
        assert known, f"{name_of(page)}: {held}.{name}"
    for name in _ERROR.findall(text):
        assert hasattr(perdure.errors, name) or hasattr(builtins, name), f"{name_of(page)}: {name}"
    for name in _DOTTED.findall(text):
        assert _exists(name), f"{name_of(page)}: {name}"


def _exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or an attribute of something that exists."""
    found: Any = perdure
    for part in dotted.split(".")[1:]:
        if not hasattr(found, part) and inspect.ismodule(found):
            try:
                found = import_module(f"{found.__name__}.{part}")
                continue
            except perdure.errors.MissingExtraError:
                return True  # an adapter of something that is not installed here
            except ImportError as exc:
                if exc.name is not None and not exc.name.startswith("perdure"):
                    return True
                return part in ("json", "lock", "yaml") and found is perdure  # files of the file storage
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_the_reference_pages_are_those_that_the_code_makes() -> None:
    """`python -m tests.docs.reference` writes them."""
    assert API.read_text(encoding="utf-8") == api_page()
    assert ERRORS.read_text(encoding="utf-8") == errors_page()


def test_every_public_name_is_in_the_reference() -> None:
    text = API.read_text(encoding="utf-8")
    for name in perdure.__all__:
        assert re.search(rf"\b{name}\b", text), name


def test_both_faces_have_the_same_names() -> None:
    for one, other in ((perdure.Perdure, perdure.sync.Perdure), (perdure.Thread, perdure.sync.Thread)):
        expected = {name for name, _ in methods(one)} - {"open_as"}
        assert {name for name, _ in methods(other)} == expected
        assert properties(other) == properties(one)


def test_every_error_is_in_the_tree_and_in_the_table() -> None:
    text = ERRORS.read_text(encoding="utf-8")
    for cls in error_classes():
        assert f"| `{cls.__name__}` |" in text
        assert re.search(rf"^\W*{cls.__name__}\b", blocks(ERRORS)[0].text, re.MULTILINE), cls.__name__


def test_every_entry_kind_is_documented_and_no_other() -> None:
    text = (ROOT / "docs" / "reference" / "entry-kinds.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z.]+)` \|", text, re.MULTILINE) == [kind.value for kind in EntryKind]


def test_every_command_is_documented_and_no_other() -> None:
    """`python -m tests.docs.cli_reference` writes the page: every command, option, example and exit code."""
    text = CLI.read_text(encoding="utf-8")
    assert text == cli_page()
    assert set(re.findall(r"^### perdure (.+)$", text, re.MULTILINE)) == set(COMMANDS | OF_TWO_WORDS)
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == list(EXIT_CODES)


def test_every_extension_code_is_documented_and_no_other() -> None:
    text = (ROOT / "docs" / "storage-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d, ]+) \| (?!format|flags|length)", text.split("## Values")[1], re.MULTILINE)
    assert [int(code) for row in rows for code in row.split(",")] == sorted(NAMES)


def test_the_fields_of_entries_about_runs_are_those_that_are_written() -> None:
    part = (ROOT / "docs" / "storage-format.md").read_text(encoding="utf-8").split("## Entries about runs")[1]
    rows = re.findall(r"^\| (.*`.*) \| (`run`.*|`call`.*|`pause`.*|`name`.*) \|$", part.split("## ")[0], re.MULTILINE)
    told = [(re.findall(r"`([a-z.]+)`", kinds), tuple(re.findall(r"`(\w+)`", fields))) for kinds, fields in rows]
    bodies = (
        Started,
        Resumed,
        Ended,
        Outcome,
        Failure,
        Intent,
        Streamed,
        ModelCalled,
        Opened,
        Notified,
        Decided,
        Signal,
        Call,
    )
    assert [fields for _, fields in told] == [body.__struct_fields__ for body in bodies]
    assert {kind for kinds, _ in told[:-1] for kind in kinds} <= {kind.value for kind in EntryKind}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_fences_are_closed(page: Path) -> None:
    assert page.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks(page))
