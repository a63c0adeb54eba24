"""The JSON Schema for editors, and files of other words as a perdure.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from perdure import Config
from perdure.app.config.keys import BY_NAME
from perdure.app.config.migration import migrate
from perdure.app.config.schema import json_schema
from perdure.errors import InvalidConfigError
from tests.app.whole_config import WHOLE as HECTOR
from tests.app.whole_perdure_yaml import WHOLE

pytestmark = pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")


def data(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def test_the_schema_accepts_a_file_with_every_key_and_describes_each() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data(WHOLE), schema)
    for name in BY_NAME:
        at = schema
        for part in name.split("."):
            at = at["properties"][part]
        assert at["description"]


@pytest.mark.parametrize(
    "text",
    [
        "stor: x", "checkpoints: {stratgy: event}", "checkpoints: {strategy: evnt}", "checkpoints: {interval: 0}",
        "cache_ttl: -1", "webhooks: [{secret: x}]", "prices: {m: {in: 1}}", "approvals: {trusted_operations: x}",
        "retention: {kinds: {routine: {lst: 3}}}", "prepare: 1", "store: 5",
    ],
)  # fmt: skip
def test_the_schema_and_the_reader_refuse_the_same(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data(text), json_schema())
    with pytest.raises(InvalidConfigError):
        Config.parse(text, "perdure.yaml", {})


def test_a_file_in_hectors_words_becomes_one_in_ours_that_means_the_same(tmp_path: Path) -> None:
    """S4.11."""
    path = tmp_path / "config.yaml"
    path.write_text(HECTOR)
    text = migrate(path)
    assert "${DATABASE_URL:-postgresql://localhost/agents}" in text
    found, before = Config.parse(text, "perdure.yaml", {}), Config.parse(HECTOR, "config.yaml", {})
    for each in (found, before):
        assert each.options.pop("password")() == "s3cret"
    assert found == before
    jsonschema.validate(data(text), json_schema())


@pytest.mark.parametrize(
    ("sessions", "store"),
    [
        ("{backend: sqlite, path: data/a.db}", "sqlite:///data/a.db"),
        ("{backend: file, path: ./c}", "file:./c"),
        ("{backend: postgres, dsn: '${DSN}'}", "${DSN}"),
        ("{backend: inmemory}", "memory://"),
        ("sqlite:///a.db", "sqlite:///a.db"),
    ],
)
def test_a_backend_becomes_an_address(sessions: str, store: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"storage: {{sessions: {sessions}}}\n")
    assert data(migrate(path)) == {"store": store}


def test_what_cannot_be_migrated_says_why(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("storage: {sesions: x}\n")
    with pytest.raises(InvalidConfigError, match="unknown key 'sesions', did you mean 'sessions'"):
        migrate(path)
    path.write_text("store: memory://\n")
    with pytest.raises(InvalidConfigError, match=r"it is a perdure\.yaml already"):
        migrate(path)
