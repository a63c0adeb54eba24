"""Fifty wrong configurations and calls: the exit code, the place, the next step, no traceback and no secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perdure.app.config.keys import ALIASES, PREFIX
from tests.cli.terminal import in_pipes

SECRET = "S3cr3tHunter2"
DSN = f"postgresql://agent:{SECRET}@db.example/agents"


class Mistake(NamedTuple):
    """A file or a call that is wrong, and what has to be told about it."""

    place: str  # how the message begins, or what it names
    told: str
    text: str | bytes = ""
    words: tuple[str, ...] = ("config", "check", "perdure.yaml")
    name: str = "perdure.yaml"
    code: int = 5


MISTAKES = [
    Mistake("perdure.yaml:1:1:", "unknown key 'stor', did you mean 'store'?", f"stor: {DSN}"),
    Mistake("perdure.yaml:1:1:", "unknown key 'nonsense'; there are", f"nonsense: {DSN}"),
    Mistake("perdure.yaml:1:8:", "expected text, found keys and values", f"store: {{url: '{DSN}'}}"),
    Mistake("perdure.yaml:1:8:", "unknown scheme", f"store: oracle+x://u:{SECRET}@h/d"),
    Mistake("perdure.yaml:1:8:", "unknown scheme 'sqlight', did you mean 'sqlite'", "store: sqlight:///a.db"),
    Mistake("perdure.yaml:1:8:", "three slashes", "store: sqlite://a.db"),
    Mistake("perdure.yaml:1:8:", "give it as hot=", f"store: redis://u:{SECRET}@h"),
    Mistake("perdure.yaml:1:8:", "its host or port cannot be read", f"store: postgresql://u:{SECRET}@h:port/d"),
    Mistake("perdure.yaml:1:8:", "unknown option", f"store: sqlite:///a.db?password={SECRET}"),
    Mistake("perdure.yaml:1:8:", "environment variable 'NOT_THERE' is not set; set it, or give a default",
            "store: ${NOT_THERE}"),
    Mistake("perdure.yaml:1:8:", "names no environment variable", "store: ${1x}"),
    Mistake("perdure.yaml:1:8:", "cannot be read: No such file", "store: ${file:/no/such/secret}"),
    Mistake("perdure.yaml:2:11:", "cannot be read: No such file", f"store: {DSN}\npassword: file:/no/such"),
    Mistake("perdure.yaml:1:11:", "password is for", f"password: {SECRET}"),
    Mistake("perdure.yaml:1:12:", "cache_ttl is for the hot layer", "cache_ttl: 5"),
    Mistake("perdure.yaml:1:9:", "schema is for postgresql://, not for sqlite", "schema: x"),
    Mistake("perdure.yaml:1:14:", 'max_pending is for durability="background"', "max_pending: 5"),
    Mistake("perdure.yaml:1:12:", "lease_ttl must be at least", "lease_ttl: 0"),
    Mistake("perdure.yaml:1:12:", "the mode of a file, such as 0o660", "file_mode: rw"),
    Mistake("perdure.yaml:1:10:", "expected one of auto, check", "migrate: chek"),
    Mistake("perdure.yaml:1:25:", "did you mean 'event'?", "checkpoints: {strategy: evnt}"),
    Mistake("perdure.yaml:1:25:", "from 1 on, found 0", "checkpoints: {interval: 0}"),
    Mistake("perdure.yaml:1:24:", "true or false, found text 'yes'", "checkpoints: {enabled: yes}"),
    Mistake("perdure.yaml:1:14:", "expected keys and values, found text", "checkpoints: event"),
    Mistake("perdure.yaml:1:22:", "a number of seconds, found -1", "checkpoints: {every: -1}"),
    Mistake("perdure.yaml:1:12:", "unknown key 'auto'; there are auto_resume", "recovery: {auto: true}"),
    Mistake("perdure.yaml:1:13:", "unknown key 'require'", "approvals: {require: [deploy]}"),
    Mistake("perdure.yaml:1:35:", "expected a list, found text 'deploy'", "approvals: {require_approval_for: deploy}"),
    Mistake("perdure.yaml:1:60:", "cannot be trusted and need approval",
            "approvals: {require_approval_for: [a], trusted_operations: [a]}"),
    Mistake("perdure.yaml:1:12:", "a url is missing", f"webhooks: [{{secret: {SECRET}}}]"),
    Mistake("perdure.yaml:1:18:", "its address cannot be read", f"webhooks: [{{url: 'ftp://u:{SECRET}@h'}}]"),
    Mistake("perdure.yaml:1:11:", "expected a list", f"webhooks: https://u:{SECRET}@h"),
    Mistake("perdure.yaml:1:42:", "shorter than initial",
            "webhooks: [{url: 'http://x/yyyy', retry: {initial: 9, max: 3}}]"),
    Mistake("perdure.yaml:1:19:", "a number from 0 on, found -1", "retention: {days: -1}"),
    Mistake("perdure.yaml:1:31:", "unknown key 'lst', did you mean 'last'?", "retention: {kinds: {routine: {lst: 3}}}"),
    Mistake("perdure.yaml:1:18:", "counts nothing", "retention: {per: thread}"),
    Mistake("perdure.yaml:1:14:", "unknown key 'in'", "prices: {m: {in: 1}}"),
    Mistake("perdure.yaml:1:20:", "found text", f"agent: {{max_turns: {SECRET}://x}}"),
    Mistake("perdure.yaml:2:1:", "unknown key 'storage', did you mean 'store'", "store: memory://\nstorage: {}"),
    Mistake("perdure.yaml:2:1:", "stands here twice, first in line 1", "store: memory://\nstore: memory://"),
    Mistake("perdure.yaml:1:8:", "is not allowed: only plain values are", "store: !!python/object/apply:os.system []"),
    Mistake("perdure.yaml:1:", "not YAML", f"store: [{SECRET}"),
    Mistake("perdure.yaml:1:8:", "byte 0xff is not UTF-8", b"store: \xff"),
    Mistake("perdure.yaml:1:1:", "larger than 256 KB", "#" * 300_000),
    Mistake("config.yaml:2:13:", "environment variable 'NOT_THERE' is not set", "storage:\n  sessions: ${NOT_THERE}",
            ("config", "check", "config.yaml"), "config.yaml"),
    Mistake(".env:1:14:", "names a server (postgresql)", f"DATABASE_URL={DSN}", ("config", "show"), ".env"),
    Mistake(".env:1:1:", "expected NAME=value", SECRET, ("config", "show"), ".env"),
    Mistake(".env:1:19:", "did you mean PERDURE_NAMESPACE?", f"PERDURE_NAMESPCAE={SECRET}", ("config", "show"), ".env"),
    Mistake("perdure.yaml:1:8:", "perdure config trust perdure.yaml", f"store: {DSN}", ("config", "show")),
    Mistake("none.yaml:", "No such file", "", ("config", "check", "none.yaml")),
    Mistake("perdure.yaml:", "it is a perdure.yaml already", "store: memory://", ("config", "migrate", "perdure.yaml")),
    Mistake("perdure.yaml:1:8:", "perdure config trust perdure.yaml", f"store: {DSN}", ("doctor",)),
    Mistake("agent.py", "name another folder", "x", ("init", "."), "agent.py", 5),
    Mistake("there is no database yet", "next:", "", ("doctor", "sqlite:///none.db"), "other", 7),
    Mistake("", "next: perdure ", "", ("config", "chek", "x"), "other", 2),
]  # fmt: skip


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ALIASES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(f"{PREFIX}STORE", raising=False)


def test_there_are_fifty() -> None:
    assert len(MISTAKES) >= 50
    assert len({each[:4] for each in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.told[:40])
def test_a_mistake_is_told_with_its_place_and_what_to_do(mistake: Mistake, tmp_path: Path, forked: Any) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    text = mistake.text
    (folder / mistake.name).write_bytes(text if isinstance(text, bytes) else text.encode())
    done = forked(*mistake.words, folder=folder)
    shown = done.stdout + done.stderr
    assert done.returncode == mistake.code, shown
    assert mistake.told in shown
    assert mistake.place in shown
    assert "Traceback" not in shown
    assert SECRET not in shown


@pytest.fixture
def forked() -> Any:
    from tests.cli.test_cli import perdure

    return perdure


def test_no_output_of_a_configuration_has_a_secret(tmp_path: Path) -> None:
    """Of one that is right: checked, shown, migrated, trusted, as text and as JSON."""
    (tmp_path / "perdure.yaml").write_text(
        f"store: {DSN}\npassword: {SECRET}\nhot: redis://u:{SECRET}@h\nagent: {{model: m, api_key: {SECRET}, "
        f"base_url: 'http://u:{SECRET}@h', settings: {{extra: {SECRET}}}}}\n"
        f"webhooks: [{{url: 'http://u:{SECRET}@h/{SECRET}', secret: {SECRET}, headers: {{A: {SECRET}}}}}]\n"
    )
    calls = [
        ["config", action, "perdure.yaml", *more]
        for action in ("check", "show", "trust")
        for more in ([], ["-o", "json"], ["--origin"])
    ]
    shown = in_pipes([*calls, ["doctor", "--config", "perdure.yaml"]], tmp_path, {"PERDURE_RETRY_SECONDS": "0"})
    assert [each.words for each in shown if SECRET in each.out + each.err] == []
    assert [each.code for each in shown] == [0] * len(calls) + [7]
