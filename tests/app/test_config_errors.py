"""What is wrong with a file of settings is told at once, each mistake with its place; never anything else is raised."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure import Config, Perdure
from perdure.app.config.hector import read_hector
from perdure.app.config.places import parse_page
from perdure.app.config.reading import Section
from perdure.errors import InvalidConfigError
from tests.app.whole_config import WHOLE


def problems(text: str) -> list[str]:
    """What is wrong, without the name of the file."""
    with pytest.raises(InvalidConfigError) as raised:
        Config.parse(text, environment={})
    return [each.removeprefix("config.yaml:") for each in raised.value.problems]


def test_a_mistyped_key_is_pointed_at_with_what_was_meant() -> None:
    """S4.11."""
    assert problems("storage:\n  checkpoint:\n    enabled: true\n    stratgy: event\n") == [
        "4:5: unknown key 'stratgy', did you mean 'strategy'?"
    ]


def test_everything_is_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
storage:
  sessions: {backend: sqlite, path: a.db, schema: x}
  checkpoint:
    strategy: evnt
    interval: 0
    enabled: yes
    recovery: [1]
    recovery: {}
    quite_other: 1
human_in_the_loop:
  require_approval_for: [a, 3]
  trusted_operations: [a]
notifications:
  - url: ftp://x
  - secret: ${NOPE}
    retry: {attempts: "3"}
"""
    assert problems(text) == [
        "2:51: schema is for postgresql://, not for sqlite",
        "4:15: expected one of event, interval, hybrid, found text 'evnt', did you mean 'event'?",
        "5:15: expected a whole number from 1 on, found 0",
        "6:14: expected true or false, found text 'yes'",
        "7:15: expected keys and values, found a list",
        "8:5: key 'recovery' stands here twice, first in line 7",
        "9:5: unknown key 'quite_other'; there are every, enabled, strategy, interval, after_tools, before_llm, "
        "recovery",
        "11:29: expected text, found a whole number",
        "12:23: 'a' cannot be trusted and need approval",
        "14:10: webhook …: its address cannot be read; use https://host/path, and quote what is unusual in a password "
        "as %…",
        "15:5: a url is missing: every notification needs one",
        "15:13: environment variable 'NOPE' is not set; set it, or give a default: ${NOPE:-…}",
        "16:23: expected a whole number from 1 on, found text '3'",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("storage: [1", "1:12: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("storage:\n\tsessions: x", "2:1: not YAML: found character '\\t' that cannot start any token"),
        ("a: b: c", "1:5: not YAML: mapping values are not allowed here"),
        ("storage: *nowhere", "1:10: not YAML: found undefined alias 'nowhere'"),
        ("storage: 1\n---\nstorage: 2", "2:1: not YAML: but found another document"),
        ("storage: {}\nx: \x01", "2:4: character U+0001 is not allowed in YAML"),
        ("storage: !!python/object/apply:os.system [ls]",
         "1:10: tag 'tag:yaml.org,2002:python/object/apply:os.system' is not allowed: only plain values are"),
        ("storage: !env x", "1:10: tag '!env' is not allowed: only plain values are"),
        ("a: &a {}\n<<: *a", "1:1: unknown key 'a'; there are storage, human_in_the_loop, notifications"),
        ("? [storage]\n: 1", "1:3: a key must be a word: neither lists, mappings, tags nor << are read"),
        ("just text", "1:1: expected keys and values, found text"),
        ("- 1", "1:1: expected keys and values, found a list"),
        ("storage: 5", "1:10: expected keys and values, found a whole number"),
        ("storage: {sessions: }", "1:20: expected text, found nothing"),
        ("storage: {sessions: []}", "1:21: expected keys and values, found a list"),
        ("storage: {sessions: {}}", "1:21: a url or a backend is missing: sqlite, file, postgres, postgresql, mysql, "
         "mariadb, memory, inmemory"),
        ("storage: {sessions: {backend: sqlite}}", "1:31: backend sqlite needs path"),
        ("storage: {sessions: {backend: memory, path: x}}", "1:45: path is not for backend memory"),
        ("storage: {sessions: {backend: mysql, dsn: 'postgresql://h/d'}}",
         "1:43: backend mysql needs an address mysql://…"),
        ("storage: {sessions: {url: 'memory://', backend: sqlite}}",
         "1:49: url says it all: leave backend out, or url"),
        ("storage: {sessions: {url: 'memory://', cache_ttl: 5}}",
         "1:51: cache_ttl is for the hot layer: give hot='redis://…' too, or leave it out"),
        ("storage: {checkpoint: {every: -1}}", "1:31: expected a number of seconds, found -1"),
        ("storage: {checkpoint: {interval: 2.5}}", "1:34: expected a whole number from 1 on, found 2.5"),
        ("storage: {checkpoint: {interval: '${0}'}}", "1:34: ${0} names no environment variable; write ${NAME}, or "
         "$${…} for the text itself"),
        ("human_in_the_loop: {require_approval_for: deploy}", "1:43: expected a list, found text 'deploy'"),
        ("notifications: [{url: 'http://x', retry: {initial: 9, max: 3}}]",
         "1:42: max is 3, shorter than initial, which is 9"),
        ("notifications: [{url: 'http://x', headers: {A: 1}}]", "1:48: expected text, found a whole number"),
        ("notifications: [null]", "1:17: expected keys and values, found nothing"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place_and_says_what_was_expected(text: str, told: str) -> None:
    assert problems(text)[0] == told


def test_a_wrong_address_is_pointed_at_without_its_password() -> None:
    (told,) = problems("storage:\n  sessions: postgresql://me:pw@host:x/db\n")
    assert told.startswith("2:13: storage address")
    assert "pw" not in told


def test_a_file_that_is_not_there_or_not_text_or_too_large_is_told_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    for data, said in ((None, "it cannot be read"), (b"a: b\nc: \xff", "2:4: byte 0xff is not UTF-8"),
                       (b"#" * 300_000, "1:1: the file is larger than 256 KB")):  # fmt: skip
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(InvalidConfigError) as raised:
            Perdure.from_config(path)
        assert raised.value.path == str(path)
        assert said in str(raised.value)


def test_a_few_lines_of_aliases_cannot_mean_a_billion_values() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)]
    (told,) = problems("\n".join(lines))
    assert told.endswith("with its aliases it has over 20000 values")


@pytest.mark.parametrize("text", ["[" * 3000, "{a: " * 200 + "}" * 200, "&a [*a]", "- " * 500])
def test_nesting_has_an_end(text: str) -> None:
    assert "nested too deep" in problems(text)[0]


_LINES = st.lists(st.sampled_from(WHOLE.splitlines()), max_size=25).map("\n".join)
_SIGNS = st.text(st.sampled_from(" \n\t:-[]{}&*!|>'\"%@`#?,<~$\\x0aUé\ud800\x00"), max_size=30)
_BYTES = st.binary(max_size=60)


@settings(max_examples=300, deadline=None)
@example(b'a: "\\UFFFFFFFF"')
@example(b"%YAML 9.9\n---\na: 1")
@example(b"? \n: &x *x")
@given(st.one_of(_BYTES, _SIGNS.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with suppress(InvalidConfigError):
        page, tree = parse_page("config.yaml", data, {})
        read_hector(Section(page, tree))


@pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")
@settings(max_examples=150, deadline=None)
@given(_LINES, _SIGNS, st.integers(0, 400))
def test_no_file_that_is_nearly_right_raises_anything_else(lines: str, signs: str, at: int) -> None:
    for text in (lines, WHOLE[:at] + signs + WHOLE[at:]):
        with suppress(InvalidConfigError):
            Config.parse(text, environment={})
