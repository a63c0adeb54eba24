"""Where settings come from, which source wins, and what nobody is shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perdure import Config
from perdure.app.config.config import read_sources
from perdure.app.config.keys import ALIASES, KEYS, PREFIX, variable_of
from perdure.app.config.resolve import resolve_config, resolve_store
from perdure.errors import InvalidConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which commands are typed, an environment without settings, and a person's own configuration."""
    made = tmp_path / "project"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name in ALIASES or name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    return made


def problems(**given: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidConfigError) as caught:
        resolve_store(**given)
    return caught.value.problems


def test_a_flag_wins_over_the_environment_over_env_over_the_file_over_the_default() -> None:
    found = [resolve_store()]
    Path("perdure.yaml").write_text("store: sqlite:///file.db\n")
    found.append(resolve_store())
    Path(".env").write_text("PERDURE_STORE=sqlite:///dotenv.db\n")
    found.append(resolve_store())
    found.append(resolve_store(environment={"PERDURE_STORE": "sqlite:///variable.db", "DATABASE_URL": "memory://"}))
    found.append(resolve_store("sqlite:///flag.db", environment={"PERDURE_STORE": "sqlite:///variable.db"}))
    assert [(each.url, each.origin) for each in found] == [
        ("sqlite:///perdure.db", "default"),
        ("sqlite:///file.db", "perdure.yaml:1:8"),
        ("sqlite:///dotenv.db", ".env:1:15"),
        ("sqlite:///variable.db", "environment variable PERDURE_STORE"),
        ("sqlite:///flag.db", "flag --store"),
    ]
    assert [each.is_default for each in found] == [True, False, False, False, False]


def test_each_key_is_taken_from_the_most_important_source_that_has_it() -> None:
    Path("perdure.yaml").write_text("checkpoints: {strategy: event, interval: 3, after_tools: true}\nnamespace: file\n")
    Path(".env").write_text("PERDURE_CHECKPOINTS__INTERVAL=4\nPERDURE_NAMESPACE=dotenv\n")
    found = read_sources("perdure.yaml", environment={"PERDURE_NAMESPACE": "variable"}).config()
    assert (found.triggers.strategy, found.triggers.interval, found.triggers.after_tools) == ("event", 4, True)
    assert found.options == {"namespace": "variable"}


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("PERDURE_CHECKPOINTS__STRATEGY", "hybrid", "checkpoints.strategy", "hybrid"),
        ("PERDURE_CHECKPOINTS__AFTER_TOOLS", "true", "checkpoints.after_tools", True),
        ("PERDURE_LEASE_TTL", "2.5", "lease_ttl", 2.5),
        ("PERDURE_NAMESPACE", "007", "namespace", "007"),
        ("PERDURE_FILE_MODE", "0o660", "file_mode", 0o660),
        (
            "PERDURE_APPROVALS__REQUIRE_APPROVAL_FOR",
            "deploy, send",
            "approvals.require_approval_for",
            ("deploy", "send"),
        ),
        ("PERDURE_APPROVALS__REQUIRE_APPROVAL_FOR", '["a, b"]', "approvals.require_approval_for", ("a, b",)),
        ("PERDURE_RETENTION__DAYS", "30", "retention.days", 30),
        ("PERDURE_PRICES", '{"m": {"input": 1}}', "prices", {"m": {"input": 1, "output": 0}}),
        ("PERDURE_CALL_TIMEOUT", "null", "call_timeout", None),
        ("DATABASE_URL", "postgresql://h/d", "store", "postgresql://h/d"),
        ("CACHE_URL", "redis://h", "hot", "redis://h"),
        ("OPENAI_MODEL", "gpt-4o-mini", "agent.model", "gpt-4o-mini"),
    ],
)
def test_the_environment_has_every_key_nested_with_two_underscores(
    variable: str, text: str, name: str, value: object
) -> None:
    """S2.54, N0."""
    setting = read_sources(None, environment={variable: text}, env_file=False).settings[name]
    assert (setting.value, setting.origin) == (value, f"environment variable {variable}")


def test_every_key_has_a_variable() -> None:
    names = [variable_of(key.name) for key in KEYS]
    assert len(set(names)) == len(names)


def test_cache_ttl_alone_belongs_to_another_program() -> None:
    """S2.54."""
    assert resolve_store(environment={"CACHE_TTL": "9"}).options == {}
    found = resolve_store(environment={"CACHE_TTL": "9", "CACHE_URL": "redis://h", "DATABASE_URL": "mysql://h/d"})
    assert (found.url, found.options) == ("mysql://h/d", {"hot": "redis://h", "cache_ttl": 9})


def test_a_mistake_in_the_environment_names_the_variable_and_not_its_value() -> None:
    environment = {
        "PERDURE_CHECKPOINTS__INTERVAL": "hunter2", "PERDURE_CHEKPOINTS__STRATEGY": "event", "PERDURE_RETENTION": "x",
        "PERDURE_STORE": "postgresql+asyncpg://u:hunter2@h/d", "KUBERNETES_PORT": "1", "PERDURE_SERVICE_HOST": "h",
        "PERDURE_PRICES": "{hunter2",
    }  # fmt: skip
    told = problems(environment=environment)
    assert "hunter2" not in str(told)
    assert [each.split(": ")[0] for each in told] == [
        f"environment variable PERDURE_{name}"
        for name in ("CHECKPOINTS__INTERVAL", "CHEKPOINTS__STRATEGY", "PRICES", "STORE")
    ]
    assert "did you mean PERDURE_CHECKPOINTS__STRATEGY?" in told[1]


def test_an_env_file_has_quotes_comments_and_export() -> None:
    Path(".env").write_text(
        "# ours\n\nexport PERDURE_NAMESPACE='a # b'\nPERDURE_DURABILITY=full # as ever\n"
        'PERDURE_CHECKPOINTS__STRATEGY="event"\nOTHER=$(rm -rf /)\n'
    )
    assert resolve_store().options["namespace"] == "a # b"
    assert resolve_config().triggers.strategy == "event"
    Path(".env").write_text("PERDURE_NAMESPACE\nPERDURE_DURABILTY=full\n")
    assert problems() == (
        ".env:1:1: expected NAME=value",
        ".env:2:19: PERDURE_DURABILTY is not a setting, did you mean PERDURE_DURABILITY?",
    )


def test_an_env_file_of_a_stranger_leads_nowhere(tmp_path: Path) -> None:
    """A cloned folder has one too."""
    for line in (
        "DATABASE_URL=postgresql://u:hunter2@evil/d",
        "PERDURE_STORE=sqlite:////etc/x.db",
        "CACHE_URL=redis://evil",
    ):
        Path(".env").write_text(f"{line}\n")
        (told,) = problems(environment={})
        assert "perdure config trust .env" in told
        assert "hunter2" not in told
        with pytest.raises(InvalidConfigError):
            resolve_config()


def test_variables_of_an_env_file_count_once_it_is_trusted() -> None:
    Path("perdure.yaml").write_text("store: ${WHERE}\n")
    Path(".env").write_text("WHERE=postgresql://u:hunter2@h/d\nDATABASE_URL=mysql://h/d\n")
    with pytest.raises(InvalidConfigError) as caught:
        Config.load("perdure.yaml")
    assert "WHERE" in caught.value.problems[0]
    assert "perdure config trust .env" in caught.value.problems[0]
    Config.trust(".env")
    Path("perdure.yaml").write_text("namespace: '${WHERE}'\n")
    found = Config.load("perdure.yaml")
    assert (found.url, len(found.options["namespace"])) == ("mysql://h/d", 26)
    Path(".env").write_text("WHERE=postgresql://u:hunter2@h/d\nDATABASE_URL=mysql://evil/d\n")
    with pytest.raises(InvalidConfigError):
        Config.load("perdure.yaml")


def test_the_nearest_file_is_used_from_a_folder_below_and_names_the_same_store(folder: Path) -> None:
    Path("perdure.yaml").write_text("store: sqlite:///data/agents.db\n")
    (folder / "a" / "b").mkdir(parents=True)
    os.chdir("a/b")
    found = resolve_store()
    assert (found.url, found.origin) == (f"sqlite:///{folder}/data/agents.db", "../../perdure.yaml:1:8")
    assert resolve_store(config="../../perdure.yaml").url == found.url


def test_a_found_file_decides_only_what_is_harmless_for_a_command_that_looks() -> None:
    """What it says beside the store is not read at all, and does not stop anybody from looking."""
    Path("perdure.yaml").write_text(
        "store: sqlite:///a.db\nworker: {handlers: evil.py}\nwebhooks: [{url: 'http://${X}'}]\n"
    )
    assert resolve_store() == ("sqlite:///a.db", {}, "perdure.yaml:1:8", False)
    with pytest.raises(InvalidConfigError, match=r"worker\.handlers is not taken from a file that nobody named"):
        resolve_config()
    for text in ("store: postgresql://evil/d\n", "store: sqlite:///../x.db\n", "store: sqlite:///${HOME}.db\n",
                 "hot: redis://evil\n", "password: x\n"):  # fmt: skip
        Path("perdure.yaml").write_text(text)
        told = problems()
        assert all(each.startswith("perdure.yaml:1:") for each in told)
        assert "perdure config trust perdure.yaml" in str(told)


def test_nothing_that_is_found_changes_what_was_typed() -> None:
    Path("perdure.yaml").write_text("store: postgresql://evil/d\nnonsense: 1\n")
    Path(".env").write_text("PERDURE_NAMESPACE=evil\n")
    assert resolve_store("sqlite:///mine.db", environment={}) == ("sqlite:///mine.db", {}, "flag --store", False)


def test_a_file_of_another_account_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("perdure.yaml").write_text("store: sqlite:///a.db\n")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    os.chown("perdure.yaml", 4712, -1)
    (told,) = problems()
    assert told.startswith("perdure.yaml: it belongs to another account; read the file")


def test_options_of_a_store_that_another_source_replaced_are_left_out() -> None:
    Path("perdure.yaml").write_text("store: postgresql://h/d\nschema: x\npool_max: 3\nnamespace: n\n")
    found = resolve_store(config="perdure.yaml", environment={"PERDURE_STORE": "sqlite:///a.db"})
    assert (found.url, found.options) == ("sqlite:///a.db", {"namespace": "n"})
    Path("perdure.yaml").write_text("store: sqlite:///a.db\nschema: x\n")
    with pytest.raises(InvalidConfigError, match=r"perdure.yaml:2:9: schema is for postgresql://, not for sqlite"):
        Config.load("perdure.yaml")


def test_secrets_are_read_from_files_and_shown_nowhere(folder: Path) -> None:
    (folder / "hook").write_text("hunter2\n")
    (folder / "dsn").write_text("postgresql://u:hunter2@h/d")
    Path("perdure.yaml").write_text(
        "store: ${file:dsn}\npassword: file:hook\nagent: {model: m, api_key: 'file:hook'}\n"
        "webhooks: [{url: 'http://h/x', secret: 'file:./hook', headers: {Authorization: file:hook}}]\n"
    )
    found = Config.load("perdure.yaml")
    (hook,) = found.webhooks
    (key,) = hook.headers.values()
    secrets = [found.options["password"](), found.agent.api_key, hook.secret, key]
    assert (found.url, secrets) == ("postgresql://u:hunter2@h/d", ["hunter2"] * 4)
    assert "hunter2" not in repr(found)
    (folder / "hook").write_text("rotated\n")
    assert found.options["password"]() == "rotated"
    (folder / "hook").unlink()
    with pytest.raises(InvalidConfigError) as caught:
        Config.load("perdure.yaml")
    assert caught.value.problems[0] == (
        "perdure.yaml:2:11: the file of this secret cannot be read: No such file or directory; create it, or correct "
        "its path"
    )


def test_the_two_dialects_do_not_mix() -> None:
    Path("perdure.yaml").write_text("store: memory://\nstorage: {}\n")
    with pytest.raises(InvalidConfigError, match="unknown key 'storage', did you mean 'store'"):
        Config.load("perdure.yaml")
