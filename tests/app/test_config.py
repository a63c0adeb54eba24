"""A `config.yaml` in Hector's words: every key changes something, and nothing starts by itself."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Approvals, Config, Perdure, RecoveryPolicy, Triggers, Webhook, sync
from perdure.app.config.config import NOT_IN_FILES
from perdure.app.config.hector import read_hector
from perdure.app.config.places import parse_page
from perdure.app.config.reading import Section
from perdure.app.options import StorageOptions
from perdure.core.errors import MissingExtraError, PausesExpireWarning
from tests.app.whole_config import WHOLE


def parsed(text: str, **environment: str) -> Config:
    return Config.parse(text, environment=environment)


def sessions(text: str) -> tuple[str, dict[str, Any]]:
    found = parsed(f"storage:\n  sessions: {text}\n")
    return found.url, found.options


def test_a_file_that_says_nothing_is_what_open_does_on_a_database_of_its_own() -> None:
    for text in ("", "# later\n", "storage:\n", "storage:\n  checkpoint:\n"):
        found = parsed(text)
        assert (found.url, found.options) == ("sqlite:///perdure.db", {})
        assert (found.triggers, found.recovery, found.approvals, found.webhooks) == (
            Triggers(), RecoveryPolicy(), Approvals(), (),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("sqlite:///agents.db", "sqlite:///agents.db"),
        ("{url: 'postgresql://localhost/agents'}", "postgresql://localhost/agents"),
        ("{backend: sqlite, path: data/agents.db}", "sqlite:///data/agents.db"),
        ("{backend: sqlite, path: /var/a%b?c.db}", "sqlite:////var/a%25b%3Fc.db"),
        ("{backend: file, path: ./checkpoints}", "file:./checkpoints"),
        ("{backend: file, path: /var/agents}", "file:///var/agents"),
        ("{backend: postgres, dsn: 'postgres://localhost/a'}", "postgres://localhost/a"),
        ("{backend: mysql, dsn: 'mysql://localhost/a'}", "mysql://localhost/a"),
        ("{backend: inmemory}", "memory://"),
        ("{backend: memory}", "memory://"),
    ],
)
def test_storage_sessions_says_where_threads_are_kept(text: str, url: str) -> None:
    """S4.27–S4.30."""
    assert sessions(text) == (url, {})


@pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")
def test_every_key_arrives() -> None:
    """S4.11."""
    found = parsed(WHOLE)
    assert found.options.pop("password")() == "s3cret"  # asked for every connection
    assert found == Config(
        url="postgresql://localhost/agents",
        options={
            "namespace": "tenant-7", "schema": "agent", "migrate": "check", "hot": "redis://localhost",
            "cache_ttl": 3600, "max_cached_threads": 50, "durability": "background", "max_pending": 200,
            "lease_ttl": 60, "user_id_type": "bigint", "pool_min": 2, "pool_max": 20, "pool_timeout": 5,
            "prepare": False, "retry_seconds": 3, "call_timeout": 7.5,
            "max_decoded_bytes": 1_000_000, "max_decoded_nodes": 50_000,
        },
        triggers=Triggers(
            strategy="hybrid", interval=10, after_tools=True, before_llm=True, every=timedelta(minutes=30)
        ),
        recovery=RecoveryPolicy(auto_resume=False, auto_resume_hitl=True, timeout=86400),
        approvals=Approvals(
            require_approval_for=("deploy", "send mail"), trusted_operations=("search",), timeout=300, auto_reject=False
        ),
        webhooks=(
            Webhook(
                url="https://hooks.example.com/approvals", secret="s3cret", headers={"X-Team": "agents"},
                template="{ask}", timeout=4, allow_private=False, attempts=5, first_wait=0.5, longest_wait=8,
            ),
        ),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")
def test_every_option_of_a_storage_can_be_written_in_a_file() -> None:
    page, tree = parse_page("config.yaml", WHOLE.encode(), {})
    root = Section(page, tree)
    read_hector(root)
    read = {key.removeprefix("storage.sessions.") for key in root.asked}
    of_perdure_yaml = {"prices", "traceback"}  # not of a storage: Hector has no words for them
    assert set(StorageOptions.__annotations__) - set(NOT_IN_FILES) - of_perdure_yaml <= read


async def test_what_a_file_says_is_what_the_runtime_has(tmp_path: Path) -> None:
    """S4.11: for those who act on it."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "storage:\n  sessions: memory://\n  checkpoint:\n    strategy: event\n    recovery: {auto_resume_hitl: true}\n"
        "human_in_the_loop:\n  require_approval_for: [deploy]\nnotifications:\n  - url: http://localhost/hook\n"
    )
    async with Perdure.from_config(path) as store:
        runtime = store._parts.running.runtime
        assert (runtime.triggers, runtime.recovery_policy, runtime.approvals, runtime.webhooks) == (
            Triggers(strategy="event"), RecoveryPolicy(auto_resume_hitl=True),
            Approvals(require_approval_for=("deploy",)), (Webhook(url="http://localhost/hook"),),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ("{}", ["Go on?"]),
        ("{enabled: false, strategy: hybrid}", []),
        ("{strategy: event}", ["after turn 1", "after turn 2", "after turn 3", "Go on?"]),
        ("{strategy: interval, interval: 2}", ["after turn 2", "Go on?"]),
        ("{strategy: interval}", ["Go on?"]),
        ("{strategy: hybrid}", ["after turn 1", "after turn 2", "after turn 3", "Go on?"]),
        ("{after_tools: true}", ["after tool send", "Go on?"]),
        ("{before_llm: true}", ["before turn 1", "before turn 2", "before turn 3", "Go on?"]),
        ("{every: 0.000001}", ["after turn 1", "after turn 2", "after turn 3", "after tool send", "Go on?"]),
    ],
)
def test_every_key_of_checkpoint_changes_what_is_saved(settings: str, notes: list[str], tmp_path: Path) -> None:
    """S4.11–S4.17."""
    path = tmp_path / "config.yaml"
    path.write_text(f"storage:\n  sessions: memory://\n  checkpoint: {settings}\n")
    with sync.Perdure.from_config(path) as store:
        store.thread("t").save({})
        with store.thread("t").run() as run:
            for turn in range(3):
                run.model(lambda messages: "said", [turn])
            run.tool("send", lambda: None)
            run.pause("go", ask="Go on?")
        assert [point.note for point in store.thread("t").history()[::-1]][1:] == notes


def test_opening_by_a_file_starts_nothing(tmp_path: Path) -> None:
    """S4.18: runs go on with the first recover() or worker, after handlers are registered."""
    path = tmp_path / "config.yaml"
    path.write_text(
        f"storage:\n  sessions: sqlite:///{tmp_path}/agents.db\n  checkpoint: {{recovery: {{auto_resume: true}}}}\n"
    )
    ran: list[str] = []
    with sync.Perdure.from_config(path) as store:
        store.start("job", thread="t")
    with sync.Perdure.from_config(path) as store:
        store.handler("job")(lambda run: ran.append("job"))
        assert ran == []
        store.recover()
    assert ran == ["job"]


async def test_what_a_program_gives_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("storage:\n  sessions: {backend: memory, namespace: a}\n  checkpoint: {strategy: event}\n")
    async with Perdure.from_config(path, checkpoints=Triggers(enabled=False), namespace="b") as store:
        assert (store._namespace, store._parts.running.runtime.triggers.enabled) == ("b", False)


def test_variables_are_filled_in_and_keep_their_types() -> None:
    lines = ["storage:", "  sessions: ${URL}", "  checkpoint:", "    interval: ${N}", "    strategy: ${S:-interval}"]
    found = parsed("\n".join([*lines, "    enabled: ${ON:-false}"]), URL="memory://", N="7")
    assert (found.url, found.triggers) == ("memory://", Triggers(enabled=False, strategy="interval", interval=7))


def test_a_variable_cannot_add_keys_and_an_escaped_one_stays() -> None:
    found = parsed(
        "notifications:\n  - {url: 'http://x/$${NAME}', secret: \"${S}\", template: '${EMPTY:-a}'}",
        S="x\n  - url: http://evil", EMPTY="",
    )  # fmt: skip
    (hook,) = found.webhooks
    assert (hook.url, hook.secret, hook.template) == ("http://x/${NAME}", "x\n  - url: http://evil", "a")


def test_an_old_timeout_is_honoured_with_a_warning_that_pauses_expire() -> None:
    with pytest.warns(PausesExpireWarning, match=r"config.yaml: .*expire after 3600 s"):
        found = parsed("storage: {checkpoint: {recovery: {timeout: 3600}}}")
    assert found.recovery.timeout == 3600


def test_what_people_should_approve_is_nothing_when_it_is_switched_off() -> None:
    off = parsed("human_in_the_loop: {enabled: false, require_approval_for: [deploy], approval_timeout_seconds: 1}")
    assert off.approvals == Approvals()


def test_a_secret_is_not_shown() -> None:
    hook = Webhook(url="https://me:pw@host/x?token=t0ken", secret="s3cret", headers={"Authorization": "key"})
    for word in ("pw", "t0ken", "s3cret", "key"):
        assert word not in repr(hook)


def test_call_timeout_may_be_nothing() -> None:
    assert sessions("{url: 'mysql://h/d', call_timeout: null}")[1] == {"call_timeout": None}


def test_without_the_parser_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    path = tmp_path / "config.yaml"
    path.write_text("storage:\n")
    with pytest.raises(MissingExtraError, match=r"pip install 'perdure\[config\]'"):
        Perdure.from_config(path)
