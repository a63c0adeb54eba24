"""The password of an address is in nothing that is printed, raised or logged, whatever is wrong with the address."""

from __future__ import annotations

import random
import string
import traceback
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from perdure import Config
from perdure.app.opening import parse
from perdure.cli.hints import hint
from perdure.cli.main import COMMANDS, OF_TWO_WORDS
from perdure.core.addresses import display_url, redact_url
from perdure.core.errors import PerdureError
from perdure.sync import Perdure
from tests.cli.terminal import in_pipes

# {p} is the password as it is, {q} percent-encoded.
SERVERS = [
    "{s}://u:{q}@127.0.0.1:1/db",
    "{s}://u:{p}@127.0.0.1:1/db",
    "{s}://u:{p}@ss:{p}@127.0.0.1:1/db",
    "{s}://:{p}@127.0.0.1:1/db",
    "{s}://u:{p}",
    "{s}://u:{p}/db",
    "{s}://u@h:{p}/db",
    "{s}://u:{p}@h:port/db",
    "{s}://u:{p}@h:99999/db",
    "{s}:u:{p}@h/db",
    "{s}://u:{p} x@127.0.0.1:1/db",
    "{s}://u:x {p}@127.0.0.1:1/db",
    "{s}://u:%zz{p}@127.0.0.1:1/db",
    "{s}://u:{p}%@127.0.0.1:1/db",
    "{s}://u:{p}%00@127.0.0.1:1/db",
    "{s}://u:{p}\n@127.0.0.1:1/db",
    "{s}://u:1/{p}@127.0.0.1:1/db",
    "{s}://u:1?{p}=1@127.0.0.1/db",
    "{s}://u:1#{p}@127.0.0.1/db",
    "{s}://u:[{p}@127.0.0.1/db",
    "{s}://u:1/d?{p}=x@127.0.0.1/db",
    "{s}://127.0.0.1:1/db?password={q}",
    "{s}://127.0.0.1:1/db?user=u&password={p}",
    "{s}://127.0.0.1:1/db?sslpassword={q}&sslmode=require",
    "{s}://127.0.0.1:1/db?password={p}@x",
    "{s}://127.0.0.1:1/db?password={p} x",
    "{s}://127.0.0.1:1/db?{p}",
    "{s}://u:\u2100{p}@h/db",
    "{s}://u:{p}@127.0.0.1:1",
]
OTHERS = [
    "host=h user=u password={p}",
    "host=h password='{p}:x'",
    "u:{p}@h/db",
    "sqlite://u:{p}@h/x.db",
    "sqlite:///x.db?password={p}",
    "file://u:{p}@h/x",
    "file:./x?password={p}",
    "memory://u:{p}@h",
    "sqlight://u:{p}@h/db",
    "redis://u:{p}@h/0",
    "unix://:{p}@/x",
]
REDIS = [
    "redis://u:{p}@h:port/0",
    "redis://:{p}@h:1/x",
    "redis://h:1/0?password={p}&x=1",
    "redis://u:{p}",
    "redis://u:{p} @h:1/0",
    "redis://u:{p}@h:1/0?socket_timeout={p}",
    "{p}",
]


def secrets() -> list[str]:
    draw = random.Random(24)
    letters = "".join(draw.choices(string.ascii_letters + string.digits, k=12))
    return [f"S3{letters}", f"pw{letters}$&+,;=é{letters[::-1]}", f"x{letters}!*'()"]


def addresses(templates: list[str], schemes: tuple[str, ...] = ("postgresql", "mysql")) -> list[tuple[str, str]]:
    """Each with its password in it."""
    return [
        (template.format(s=scheme, p=secret, q=quote(secret, safe="")), secret)
        for secret in secrets()
        for template in templates
        for scheme in (schemes if "{s}" in template else ("",))
    ]


def tells(text: str, secret: str) -> bool:
    """Whether any eight characters of a password are in a text, as they are or percent-encoded."""
    forms = (secret, quote(secret, safe=""), repr(secret)[1:-1])
    return any(form[at : at + 8] in text for form in forms for at in range(max(1, len(form) - 7)))


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_errors_about_addresses_hold_no_password(way: str) -> None:
    from perdure import Perdure as AsyncPerdure

    raised = 0
    options = {"retry_seconds": 0, "call_timeout": 2.0}
    for url, secret in addresses([*SERVERS, *OTHERS]):
        given = options if url.startswith(("postgres", "mysql")) else {}
        try:
            if way == "sync":
                with Perdure.open(url, **given) as store:
                    assert not tells(repr(store), secret)
                    if "127.0.0.1" in url:
                        store.thread("t").load(default=None)
            else:
                async with AsyncPerdure.open(url, **given) as there:
                    if "127.0.0.1" in url:
                        await there.thread("t").load(default=None)
        except PerdureError as exc:
            raised += 1
            text = "".join(traceback.format_exception(exc)) + str(exc) + repr(exc) + repr(vars(exc))
            assert not tells(text, secret), url
    assert raised > 150


def test_errors_about_the_hot_layer_hold_no_password(tmp_path: Path) -> None:
    for url, secret in addresses(REDIS):
        shown = ""
        try:
            Perdure.open(f"sqlite:///{tmp_path}/x.db", hot=url).close()
        except PerdureError as exc:
            shown = "".join(traceback.format_exception(exc)) + repr(exc)
        assert not tells(shown, secret), url


def test_an_address_is_never_shown_with_its_password() -> None:
    for url, secret in addresses([*SERVERS, *OTHERS, *REDIS[:-1]]):
        assert not tells(redact_url(url) + display_url(url) + hint("why", url, ["t"], {}), secret), url
        with suppress(PerdureError):
            assert not tells(repr(parse(url)), secret)


def test_settings_are_shown_without_passwords() -> None:
    for url, secret in addresses([*SERVERS, *OTHERS], ("postgresql",))[: len(SERVERS) + len(OTHERS)]:
        for text in (
            "storage: {sessions: '${URL}'}", "storage: '${URL}'", "storage: {sessions: {url: '${URL}', hot: '${URL}'}}",
            "storage: {sessions: {backend: sqlite, path: ['${URL}']}}", "storage: {sessions: {migrate: '${URL}'}}",
            "storage: {sessions: {backend: postgres, dsn: '${URL}', pool_max: '${URL}'}}",
            f"storage: {{sessions: {{cache_ttl: {url!r}}}}}", f"storage: {url!r}",
            "notifications: [{url: 'http://x', secret: ['${URL}'], headers: '${URL}'}]",
        ):  # fmt: skip
            try:
                shown = repr(Config.parse(text, environment={"URL": url}))
            except PerdureError as exc:
                shown = "".join(traceback.format_exception(exc))
            assert not tells(shown, secret), (text, shown)


def test_no_command_prints_the_password_of_an_address(tmp_path: Path) -> None:
    secret = secrets()[0]
    urls = [url for url, one in addresses([*SERVERS[4:20:3], *OTHERS[:3]]) if one == secret]
    (tmp_path / "x.yaml").write_text(f"storage: {{sessions: {{url: {urls[0]!r}, hot: {'redis://u:' + secret}}}}}")
    words = [
        [*name.split(), *(["check"] if name == "config" else []), *more]
        for number, name in enumerate(COMMANDS | OF_TWO_WORDS)
        for url in (urls[number % len(urls)],)
        for more in ([url, "t", "x"], [url, url, url, url, url, url], [f"--config={url}", "t"], [f"--wrong={url}", url],
                     ["--config", "x.yaml", "t"], ["--last", url, url])
    ]  # fmt: skip
    shown = in_pipes(words, tmp_path)
    assert [each.words for each in shown if tells(each.out + each.err, secret)] == []
    assert {each.code for each in shown} >= {1, 2}
