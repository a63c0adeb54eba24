"""Every key of a configuration is in the guide, and the guide names no other."""

from __future__ import annotations

import re

import jsonschema
import pytest
from ruamel.yaml import YAML

from perdure.app.config.dialects import dialect_of
from perdure.app.config.hector import read_hector
from perdure.app.config.keys import KEYS, WEBHOOK_KEYS
from perdure.app.config.places import parse_page
from perdure.app.config.reading import Section
from perdure.app.config.schema import json_schema
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
    ours = {key.name for key in KEYS} | {f"webhooks[].{key.name}" for key in WEBHOOK_KEYS}
    assert set(documented) == root.asked | ours
    assert len(documented) == len(set(documented))


def test_each_default_of_the_page_is_the_one_that_counts() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for key in KEYS:
        row = re.search(rf"^\| `{re.escape(key.name)}` \| (.*?) ?\| (.*) \|$", text, re.MULTILINE)
        assert row, key.name
        told = row[1].strip("`")
        shown = (
            "" if key.default in (None, ()) else str(key.default).lower() if key.kind == "flag" else str(key.default)
        )
        assert told == ("0o600" if key.kind == "mode" else shown), key.name
        assert ("†" in row[2]) is not key.harmless, key.name


def test_the_yaml_of_the_page_is_understood_and_fits_the_schema() -> None:
    for block in blocks(PAGE):
        if block.language == "yaml":
            page, tree = parse_page("perdure.yaml", block.text.encode(), {})
            dialect = dialect_of("perdure.yaml", tree)
            dialect.read(Section(page, tree))
            page.check()
            if dialect.name == "perdure":
                jsonschema.validate(YAML(typ="safe", pure=True).load(block.text), json_schema())
