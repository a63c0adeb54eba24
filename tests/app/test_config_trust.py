"""What a file of settings may say that nobody named, and who may change that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure import Config
from perdure.app.config.hector import NAMES, read_hector
from perdure.app.config.keys import BY_NAME
from perdure.app.config.places import parse_page
from perdure.app.config.reading import Section
from perdure.errors import InvalidConfigError, StorageError
from tests.app.whole_config import WHOLE

DISCOVERED_KEYS = {name for name, key in NAMES.items() if BY_NAME[key].harmless} | {
    "storage.sessions", *(f"storage.sessions.{name}" for name in ("url", "backend", "path")),
}  # fmt: skip
NEED_TRUST = {
    "human_in_the_loop.trusted_operations",
    *(f"storage.sessions.{name}" for name in (
        "dsn", "schema", "hot", "cache_ttl", "max_cached_threads", "pool_min", "pool_max", "pool_timeout", "prepare",
        "retry_seconds", "call_timeout", "password", "file_mode", "max_decoded_bytes", "max_decoded_nodes",
    )),
    *(f"notifications[].{name}" for name in (
        "url", "secret", "headers", "template", "link", "timeout", "allow_private", "retry.attempts", "retry.initial",
        "retry.max",
    )),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned folder, in which the program runs, and a person's own configuration elsewhere."""
    made = tmp_path / "cloned"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SECRET", "hunter2")
    return made


def discovered(text: str) -> Config:
    Path("perdure.yaml").write_text(text)
    return Config.load_discovered("perdure.yaml")


def refused(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidConfigError) as caught:
        discovered(text)
    assert "hunter2" not in str(caught.value)
    return caught.value.problems


@pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")
def test_every_key_is_either_harmless_or_needs_trust() -> None:
    page, tree = parse_page("config.yaml", WHOLE.encode(), {})
    root = Section(page, tree)
    read_hector(root)
    assert root.asked - {"notifications[].retry"} == DISCOVERED_KEYS | NEED_TRUST
    assert not DISCOVERED_KEYS & NEED_TRUST


@pytest.mark.parametrize(
    ("sessions", "url"),
    [
        ("sqlite:///agents.db", "sqlite:///agents.db"),
        ("sqlite:///data/agents.db?synchronous=NORMAL", "sqlite:///data/agents.db?synchronous=NORMAL"),
        ("file:./threads", "file:./threads"),
        ("memory://", "memory://"),
        ("{backend: sqlite, path: data/agents.db, namespace: tenant, lease_ttl: 5}", "sqlite:///data/agents.db"),
        ("{backend: file, path: threads}", "file:threads"),
    ],
)
def test_a_discovered_file_may_name_a_local_store_and_options(sessions: str, url: str) -> None:
    found = discovered(f"storage:\n  sessions: {sessions}\n  checkpoint: {{strategy: event, after_tools: true}}\n")
    assert (found.url, found.triggers.after_tools) == (url, True)


def test_a_file_that_says_nothing_uses_the_store_of_the_folder() -> None:
    assert discovered("").url == "sqlite:///perdure.db"


@pytest.mark.parametrize(
    "sessions",
    [
        "postgresql://me:hunter2@evil.example/a", "postgres://evil.example/a", "mysql://evil.example/a",
        "mariadb://evil.example/a", "sqlite:////etc/agents.db", "sqlite:///../other/agents.db",
        "sqlite:///a/../../b.db", "sqlite:///%2Fetc%2Fa.db", "sqlite:///%2e%2e/a.db", "sqlite:///..%2fa.db",
        "sqlite:///a%5c..%5c..%5cb.db", "file:///etc", "file:..", "file:../other", "file:./a/../../b", "file:%2e%2e/x",
        "{url: 'postgresql://evil.example/a'}", "{backend: postgres, dsn: 'postgresql://evil.example/a'}",
        "{backend: mysql, dsn: 'mysql://evil.example/a'}", "{backend: sqlite, path: /etc/a.db}",
        "{backend: sqlite, path: ../a.db}", "{backend: file, path: /etc}", "{backend: file, path: a/../../b}",
        "sqlite:///linked.db", "sqlite:///linked-folder/a.db", "file:linked-folder", "file:linked-folder/new/folder",
        "{backend: file, path: linked-folder}", "sqlite:///chain/a.db",
    ],
)  # fmt: skip
def test_no_other_store_is_taken_from_it(sessions: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "agents.db").touch()
    os.symlink(outside / "agents.db", "linked.db")
    os.symlink("../outside", "linked-folder")
    os.symlink("linked-folder", "chain")
    problems = refused(f"storage:\n  sessions: {sessions}\n")
    for each in problems:
        assert each.startswith("perdure.yaml:2:")
        assert "storage.sessions" in each
        assert "--config perdure.yaml, or run `perdure config trust perdure.yaml`" in each


def test_the_default_store_is_not_reached_through_a_link(tmp_path: Path) -> None:
    os.symlink(tmp_path / "agents.db", "perdure.db")
    (problem,) = refused("human_in_the_loop: {enabled: true}\n")
    assert problem.startswith("perdure.yaml:1:1: storage.sessions leads out of the folder by a symbolic link")


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        ("storage:\n  sessions: {backend: memory, hot: 'redis://evil'}", "2:36", "storage.sessions.hot"),
        ("storage:\n  sessions: {backend: sqlite, path: a.db, file_mode: 0o666}", "2:54", "storage.sessions.file_mode"),
        ("notifications: [{url: 'https://evil.example'}]", "1:16", "notifications"),
        ("human_in_the_loop: {trusted_operations: [deploy]}", "1:41", "human_in_the_loop.trusted_operations"),
        ("storage:\n  sessions: sqlite:///${SECRET}.db", "2:13", "a ${VARIABLE}"),
        ("storage:\n  sessions: 'sqlite:///${NONE:-x}.db'", "2:13", "a ${VARIABLE}"),
        ("storage: {checkpoint: {enabled: '${SECRET}'}}", "1:33", "a ${VARIABLE}"),
    ],
)
def test_what_reaches_out_is_refused_with_its_place_and_what_to_do(text: str, place: str, key: str) -> None:
    (problem,) = refused(text)
    advice = "read the file, then name it with --config perdure.yaml, or run `perdure config trust perdure.yaml`"
    assert problem == f"perdure.yaml:{place}: {key} is not taken from a file that nobody named; {advice}"


def test_the_text_of_a_variable_is_no_variable() -> None:
    assert discovered("storage: {sessions: {backend: memory, namespace: '$${SECRET}'}}").options == {
        "namespace": "${SECRET}"
    }


def test_everything_that_is_wrong_is_told_in_one_go() -> None:
    problems = refused(
        "storage:\n  sessions: {url: 'postgresql://${SECRET}@evil/x', hot: '${SECRET}', stratgy: 1}\n"
        "notifications: [{url: 'https://evil.example'}]\n"
    )
    assert [each.split(" ")[0] for each in problems] == [
        *(f"perdure.yaml:2:{column}:" for column in (19, 57, 57, 70)), "perdure.yaml:3:16:",
    ]  # fmt: skip


EVIL = "storage: {sessions: 'postgresql://evil.example/a'}\n"


def test_a_file_is_trusted_as_it_was_read_and_where_it_was(folder: Path, tmp_path: Path) -> None:
    refused(EVIL)
    Config.trust("perdure.yaml")
    assert discovered(EVIL).url == "postgresql://evil.example/a"
    refused(EVIL + "# changed\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "perdure.yaml").write_text(EVIL)
    with pytest.raises(InvalidConfigError):
        Config.load_discovered("sub/perdure.yaml")
    os.symlink("perdure.yaml", "linked.yaml")
    (folder / "perdure.yaml").write_text(EVIL)
    assert Config.load_discovered("linked.yaml").url == "postgresql://evil.example/a"


def test_a_wrong_file_is_not_trusted() -> None:
    Path("perdure.yaml").write_text(EVIL + "nonsense: 1\n")
    with pytest.raises(InvalidConfigError):
        Config.trust("perdure.yaml")
    refused(EVIL + "nonsense: 1\n")


def test_the_record_is_its_owners_alone(tmp_path: Path) -> None:
    refused(EVIL)
    Config.trust("perdure.yaml")
    record = tmp_path / "home" / "perdure" / "trusted-configs.jsonl"
    assert (record.stat().st_mode & 0o777, record.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    record.chmod(0o620)
    with pytest.raises(StorageError, match="other accounts may write"):
        Config.load_discovered("perdure.yaml")
    with pytest.raises(StorageError, match="other accounts may write"):
        Config.trust("perdure.yaml")


def test_a_record_that_is_cut_off_or_damaged_trusts_nothing_by_it(tmp_path: Path) -> None:
    refused(EVIL)
    record = tmp_path / "home" / "perdure" / "trusted-configs.jsonl"
    Config.trust("perdure.yaml")
    whole = record.read_bytes()
    for cut in range(len(whole) - 1):
        record.write_bytes(whole[:cut])
        refused(EVIL)
        Config.trust("perdure.yaml")
        assert discovered(EVIL).url
        record.write_bytes(whole[:cut] + b"\xff[]{}\0\n[1,2]\n")
        refused(EVIL)
    record.unlink()
    os.symlink(tmp_path / "elsewhere", record)
    with pytest.raises(StorageError):
        Config.load_discovered("perdure.yaml")


def test_a_relative_configuration_home_is_not_the_strangers_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(EVIL)
    Config.trust("perdure.yaml")
    record = (tmp_path / "home" / "perdure" / "trusted-configs.jsonl").read_bytes()
    monkeypatch.setenv("XDG_CONFIG_HOME", "home")
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (folder / "home" / "perdure").mkdir(parents=True)
    (folder / "home" / "perdure" / "trusted-configs.jsonl").write_bytes(record)
    refused(EVIL)


def test_a_named_file_may_say_everything() -> None:
    Path("perdure.yaml").write_text("storage: {sessions: 'sqlite:////etc/${SECRET}.db'}\n")
    assert Config.load("perdure.yaml").url == "sqlite:////etc/hunter2.db"
