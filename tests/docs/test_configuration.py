"""Every key of a file of settings is in the guide, and the guide names no other."""

from __future__ import annotations

import re

import pytest

from perdure.app.config.hector import read_hector
from perdure.app.config.places import parse_page
from perdure.app.config.reading import Section
from tests.app.whole_config import WHOLE
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "guides" / "configuration.md"
_KEY = re.compile(r"^\| `([a-z_.\[\]]+)` \|", re.MULTILINE)


@pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")
def test_a_documented_key_is_read_and_a_key_that_is_read_is_documented() -> None:
    """S4.11."""
    page, tree = parse_page("config.yaml", WHOLE.encode(), {})
    root = Section(page, tree)
    read_hector(root)
    documented = _KEY.findall(PAGE.read_text(encoding="utf-8"))
    assert set(documented) == root.asked
    assert len(documented) == len(set(documented))


def test_the_yaml_of_the_page_is_understood() -> None:
    for block in blocks(PAGE):
        if block.language == "yaml":
            page, tree = parse_page("config.yaml", block.text.encode(), {})
            read_hector(Section(page, tree))
