"""A store full of text that attacks terminals: no command prints it raw, cuts what is approved or forges a line."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sqlite3
import subprocess
import unicodedata
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure.cli
from perdure.cli.hints import hint
from perdure.cli.main import COMMANDS, OF_TWO_WORDS
from perdure.sync import MemoryManager, Perdure
from tests.cli.terminal import Shown, in_pipes, on_terminal

# Conceal, window title, clipboard, link, cursor, bell, C1, DEL; bidi; zero-width, blank and filler characters; tags,
# selectors, separators; a line of its own.
ATTACK = (
    "x\x1b[8m\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x07\x1b]8;;http://evil.example\x1b\\y\x1b[2A\x07\x08\x9b31m\x85\x7f"
    "\u202e\u2066\u2069\u061c\u200b\u200d\u2060\ufeff\xad\u00a0\u3164\u2800\u115f\u034f\ufe0f\U000e0100"
    "\U000e0041\u2028\u2029\r\nFORGED everything is well\tz"
)
NAME = ATTACK[:400]
NAMESPACE = "acme\u202e\u200b\u3164\U000e0041 x"  # control characters are refused there
EDITED = json.dumps({ATTACK: 1})
STORES = {"sqlite": "sqlite:///agents.db", "file": "file:./agents"}
_OWN = re.compile(r"\x1b\[(?!8m)[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]|\x1b\[1G|\r(?=\x1b|\n|$)")  # what rich writes
_INVISIBLE = set("\u3164\u2800\u115f\u034f\ufe0f\U000e0100\u00a0")


def fill(url: str) -> None:
    for namespace in ("", NAMESPACE):
        with Perdure.open(url, namespace=namespace) as store:
            _runs(store)
            thread = store.thread(NAME, user=NAME, agent=NAME, name=NAME, tags=(NAME,))
            thread.append("messages", {"role": "assistant", "content": ATTACK})
            thread.save({ATTACK: ATTACK}, kind=NAME, status=NAME, note=ATTACK, metadata={ATTACK: ATTACK})
            thread.tag("@-1", NAME)
            for name in (f"fails{NAME}", f"asks{NAME}"):
                store.export(name, "exported", user=NAME)
                store.import_("exported", to=f"imported {name}", user=NAME)


def _runs(store: Perdure) -> None:
    def fails(run: Any) -> None:
        run.tool(NAME, lambda **args: ATTACK, note=ATTACK, **{"iban" + ATTACK: ATTACK})
        run.step(NAME, _fail)

    def asks(run: Any) -> Any:
        return run.pause(NAME, ask=ATTACK, args={ATTACK: ATTACK, "iban": "DE1"}, expects=[NAME, "no"], who=[NAME]).by

    MemoryManager(store, user=NAME).add_text(ATTACK, author=NAME, source=(NAME, 1), tags=[NAME], id="attack")
    store.handler(NAME)(fails)
    store.handler("asks")(asks)
    store.start(NAME, ATTACK, thread=f"fails{NAME}", user=NAME)
    with pytest.raises(ValueError, match="FORGED"):
        store.resume(f"fails{NAME}", user=NAME)
    store.start("asks", 1, thread=f"asks{NAME}", user=NAME)
    store.resume(f"asks{NAME}", user=NAME)


def _fail() -> None:
    raise ValueError(ATTACK)


def commands(url: str, pause: str) -> dict[str, list[list[str]]]:
    """Every command with what there is to see, and with arguments that it has to refuse."""
    file = f"out{NAME[:60]}".replace("/", "")
    fails, asks = f"fails{NAME}", f"asks{NAME}"
    theirs = f"imported {asks}"
    return {
        "answer": [["answer", url, pause, NAME, "--by", ATTACK], ["answer", url, ATTACK, "x"]],
        "approve": [["approve", url, ATTACK, "--by", ATTACK], ["approve", url, pause, "--by", ATTACK, "--args", "{"]],
        "cancel": [["cancel", url, NAME], ["cancel", url, fails, "--reason", ATTACK]],
        "compact": [["compact", url]],
        "compare": [["compare", url, NAME, fails], ["compare", url, f"{NAME}@-1", f"{NAME}@-2"],
                    ["compare", url, NAME, "no"]],
        "config": [["config", "check", file], ["config", "check", "hostile.yaml"]],
        "copy": [["copy", url, f"file:./copy{NAME[:60]}"], ["copy", url, "memory://", "--thread", NAME]],
        "decide": [["decide", url, pause, "--approve", "--by", ATTACK], ["decide", url, ATTACK, "--deny", "--by", "x"],
                   ["decide", url, pause],
                   ["decide", url, pause, "--approve", "--by", NAME, "--args", EDITED, "--choice", NAME]],
        "completion": [["completion", ATTACK]],
        "delete": [["delete", url, NAME, "--dry-run"], ["delete", url, NAME], ["delete", url, "no" + NAME, "--yes"]],
        "deny": [["deny", url, ATTACK, "--by", ATTACK], ["deny", url, pause, "--by", ATTACK, "--text", ATTACK]],
        "demo": [["demo", "--vs", ATTACK]],
        "export": [["export", url, NAME, file], ["export", url, "nobody" + NAME, file]],
        "export langgraph": [["export", "langgraph", NAME, "--from", url, "--to", file]],
        "forget": [["forget", url, NAME, "--dry-run"], ["forget", url, NAME],
                   ["forget", url, "nobody" + NAME, "--yes"]],
        "views": [["views", url], ["views", url, "--drop"], ["views", url, "--namespace", NAMESPACE]],
        "fork": [["fork", url, NAME, "--to", f"fork{NAME}"], ["fork", url, NAME, "--to", NAME],
                 ["fork", url, NAME, "--to", "f2", "--set", ATTACK]],
        "history": [["history", url, NAME], ["history", url, asks], ["history", url, NAME, "--kind", NAME]],
        "import": [["import", "sqlite:///in.db", file, "--user", NAME], ["import", url, file],
                   ["import", url, "no" + file, "--to", NAME, "--user", NAME]],
        "import langgraph": [["import", "langgraph", file, "--into", url, "--types", ATTACK]],
        "key": [["key", "list", url], ["key", "remove", url, NAME], ["key", ATTACK, url]],
        "memory add": [["memory", "add", url, NAME, ATTACK], ["memory", "add", url, NAME, "x", "--kind", ATTACK]],
        "memory forget": [["memory", "forget", url, NAME, ATTACK, "--yes"], ["memory", "forget", url, NAME, "--all"]],
        "memory history": [["memory", "history", url, NAME, ATTACK], ["memory", "history", url, NAME, "attack"]],
        "memory list": [["memory", "list", url, NAME], ["memory", "list", url, "nobody" + NAME]],
        "memory search": [["memory", "search", url, NAME, ATTACK], ["memory", "search", url, "no" + NAME, "x"]],
        "memory stats": [["memory", "stats", url, NAME]],
        "messages": [["messages", url, NAME], ["messages", url, "nobody" + NAME]],
        "pauses": [["pauses", url], ["pauses", url, asks], ["pauses", url, "--namespace", NAMESPACE]],
        "prune": [["prune", url, "--last", "1", "--dry-run"], ["prune", url, "--kind", ATTACK],
                  ["prune", url, "--kind", f"{NAME}=last:1"]],
        "redo": [["redo", url, NAME], ["redo", url, fails]],
        "rerun": [["rerun", url, fails, "--handlers", "handlers"], ["rerun", url, NAME, "--handlers", "broken"]],
        "rewind": [["rewind", url, f"{NAME}@-2", "--dry-run"], ["rewind", url, f"{NAME}@-2", "--yes", "--note", ATTACK],
                   ["rewind", url, NAME]],
        "repair": [["repair", url], ["repair", url, NAME]],
        "restored": [["restored", url, "--by", NAME]],
        "resume": [["resume", url, fails, "--handlers", "handlers"], ["resume", url, fails, "--handlers", ATTACK],
                   ["resume", url, fails, "--handlers", "broken"]],
        "runs": [["runs", url], ["runs", url, "--agent", NAME], ["runs", url, "--namespace", NAMESPACE]],
        "schema": [["schema", url], ["schema", "sqlite" + ATTACK]],
        "signal": [["signal", url, asks, NAME, "1"], ["signal", url, asks, NAME, ATTACK]],
        "sizes": [["sizes", url], ["sizes", url, NAME], ["sizes", url, "nobody" + NAME]],
        "show": [["show", url, NAME], ["show", url, fails], ["show", url, asks], ["show", url, theirs]],
        "start": [["start", url, NAME, NAME, "--input", ATTACK], ["start", url, NAME, f"new {NAME}"]],
        "state": [["state", url, NAME], ["state", url, f"{NAME}@-2"], ["state", url, NAME, "--path", ATTACK]],
        "tag": [["tag", url, NAME], ["tag", url, NAME, NAME], ["tag", url, NAME, ATTACK, "--remove"]],
        "threads": [["threads", url], ["threads", url, "--search", NAME], ["threads", url, "--namespace", NAMESPACE]],
        "timeline": [["timeline", url, NAME], ["timeline", url, fails], ["timeline", url, asks]],
        "top": [["top", url, "--once"], ["top", url, "--namespace", NAMESPACE, "--once"]],
        "tree": [["tree", url, NAME], ["tree", url, ATTACK]],
        "trust": [["trust", url, f"imported {fails}", "--dry-run"], ["trust", url, theirs],
                  ["trust", url, theirs, "--by", NAME, "--yes"], ["trust", url, "--file", file, "--dry-run"],
                  ["trust", url, "--file", "exported", "--yes"]],
        "init": [["init", file], ["init", "hostile.yaml"]],
        "doctor": [["doctor", url], ["doctor", ATTACK]],
        "run": [["run", "hostile.yaml", "--handlers", "json", "--store", url], ["run", file, "--handlers", ATTACK],
                ["run", file, "--handlers", "broken", "--input", ATTACK, "--thread", NAME, "--store", url]],
        "workflow check": [["workflow", "check", "hostile.yaml"], ["workflow", "check", file]],
        "workflow show": [["workflow", "show", "hostile.yaml", "--thread", NAME, "--store", url]],
        "workflow schema": [["workflow", "schema"]],
        "usage": [["usage", url], ["usage", url, "--by", "agent"], ["usage", url, "--by", "thread", "--price", ATTACK]],
        "verify": [["verify", url], ["verify", url, NAME, "--restore"]],
        "version": [["version"]],
        "why": [["why", url, fails], ["why", url, asks], ["why", url, NAME], ["why", url, f"imported {fails}"],
                ["why", url, asks, "--namespace", NAMESPACE]],
        "worker": [["worker", url, "--handlers", "broken"], ["worker", "--config", file, "--handlers", "json"]],
    }  # fmt: skip


_JSON = {
    "answer", "cancel", "compact", "compare", "config", "decide", "delete", "export", "forget", "fork",
    "history", "import", "memory add", "memory history", "memory list", "memory search", "messages", "pauses",
    "prune", "repair", "resume", "rewind", "runs", "show", "sizes", "state", "tag", "threads", "timeline",
    "top", "tree", "trust", "verify", "views", "why",
}  # fmt: skip


def faults(shown: Shown) -> list[str]:
    text = _OWN.sub("", shown.out + shown.err)
    bad = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in "\n"}
    bad |= _INVISIBLE & set(text)
    lines = [line for line in text.split("\n") if line.startswith("FORGED")]
    return [f"{shown.words[:3]!r} printed {sorted(bad)!r} {lines!r}"] if bad or lines else []


@pytest.fixture(params=STORES)
def hostile(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    url = STORES[request.param]
    fill(url)
    (tmp_path / "hostile.yaml").write_text(json.dumps({"a\x1b[8m\u202e\nFORGED": {"x\u200b": "\x9b"}}), "utf-8")
    (tmp_path / "broken.py").write_text(f"raise ValueError({ATTACK!r})\n")
    fails = f"    def fails(run):\n        raise ValueError({ATTACK!r})\n    store.handler({NAME!r})(fails)\n"
    (tmp_path / "handlers.py").write_text(f"def register(store):\n{fails}")
    return url


def test_no_command_prints_what_a_terminal_obeys_or_nobody_sees(hostile: str, tmp_path: Path) -> None:
    with Perdure.open(hostile) as store:
        pause = store.pauses()[0].id
    if hostile.startswith("sqlite"):  # what an index lost is named, with the command that makes it again
        with closing(sqlite3.connect(tmp_path / "agents.db")) as db, db:
            db.execute("DELETE FROM perdure_checkpoint")
    every = commands(hostile, pause)
    assert set(every) == set(COMMANDS | OF_TWO_WORDS)  # a new one has to be shown here too
    plain = [words for each in every.values() for words in each]
    wrong = [[*name.split(), *more] for name in every for more in ([f"--{ATTACK}"], [ATTACK] * 9)]
    answers = [words for name in sorted(_JSON) for words in every[name]]
    forms = ("json", "jsonl", "csv")
    for_programs = [[*words, "-o", forms[number % 3]] for number, words in enumerate(answers)]
    shown = [*on_terminal([*plain, *wrong], tmp_path), *in_pipes(for_programs, tmp_path)]
    assert [fault for each in shown for fault in faults(each)] == []
    succeeded = {each.words[0] for each in shown if each.code == 0}
    assert succeeded >= {
        "compact", "copy", "export", "forget", "fork", "history", "import", "messages", "pauses", "prune", "rewind",
        "runs", "show", "sizes", "state", "tag", "threads", "timeline", "top", "tree", "why",
    }  # fmt: skip
    # That there was something to escape is proved by the escapes.
    assert {each.words[0] for each in shown if r"\x1b" in each.out + each.err} >= set(COMMANDS) - {"compact", "version"}


def test_programs_get_the_same_text_that_is_stored(hostile: str, tmp_path: Path) -> None:
    words = [["runs", hostile], ["pauses", hostile], ["timeline", hostile, NAME]]
    shown = in_pipes([[*each, "-o", "json"] for each in words], tmp_path)
    runs, pauses, timeline = (json.loads(each.out) for each in shown)
    mine = {f"fails{NAME}", f"asks{NAME}"}
    assert {each["thread"] for each in runs} == mine | {f"imported {each}" for each in mine}
    assert {each["user"] for each in runs} == {NAME}
    assert pauses[0]["ask"] == ATTACK
    assert pauses[0]["args"] == {ATTACK: ATTACK, "iban": "DE1"}
    assert [each["note"] for each in timeline if each["note"]] == [ATTACK]


def test_hints_name_the_same_thread_when_they_are_pasted(tmp_path: Path) -> None:
    for name in (NAME, "-x", "--help", "it's $HOME `id` !x", "a;b", "\\", "é 你好"):
        command = hint("why", "sqlite:///a.db", [name], {"--user": name, "--deny": True, "--schema": None})
        assert command.isprintable()
        script = command.replace("perdure", "printf '%s\\0'", 1)
        words = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")[:-1]
        assert words[0] == "why"
        assert name in words[1:]
        assert f"--user={name}" in words or words[words.index("--user") + 1] == name
        assert (name[:1] != "-") or words.index("--") < words.index(name)
    assert shlex.split(hint("runs", "sqlite:///a.db", [], {"--user": None})) == ["perdure", "runs", "sqlite:///a.db"]


PADDINGS = {"spaces": " " * 5000, "lines": "\n" * 5000, "wide spaces": "\u3000" * 5000, "letters": "la " * 4000}


@pytest.mark.parametrize("padding", PADDINGS)
def test_a_padded_argument_hides_no_other_from_those_who_decide(padding: str, tmp_path: Path) -> None:
    args = {"note": f"thanks{PADDINGS[padding]}!", "iban": "DE89370400440532013000", "amount": 9999.5}
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        store.handler("pay")(lambda run: run.pause("pay", ask="Pay?", args=args).approved)
        store.start("pay", 1, thread="t")
        store.resume("t")
        pause = store.pauses()[0].id
    listed, asked = on_terminal([["pauses", "sqlite:///agents.db"], ["decide", "sqlite:///agents.db", pause]], tmp_path)
    for seen in (listed.out, asked.out.partition("Decision")[0]):
        lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen).splitlines()
        assert '    iban: "DE89370400440532013000"' in lines
        assert "    amount: 9999.5" in lines
        assert "…" not in seen
        shown_note = next(line for line in lines if line.startswith("    note: "))
        if padding == "letters":
            assert shown_note == f"    note: {json.dumps(args['note'])}"
            assert any(line.startswith("  with 3 arguments: note (12,0") and "iban, amount" in line for line in lines)
        else:
            assert len(shown_note) < 100
            assert "× 5,000⟩" in shown_note


def test_nothing_but_the_output_module_prints() -> None:
    """The agents of the demo are programs of their own, written as a user writes them."""
    places = [path for path in Path(perdure.cli.__file__).parent.glob("*.py") if not path.name.startswith("ticket_")]
    printing = re.compile(r"\b(print|print_exception|print_exc|Console|Prompt|input)$|(stdout|stderr)\.|\.print$")
    found = [
        f"{path.name}: {ast.unparse(node.func)}"
        for path in places
        for node in ast.walk(ast.parse(path.read_text()))
        if path.name != "output.py" and isinstance(node, ast.Call) and printing.search(ast.unparse(node.func))
    ]
    assert [each for each in found if "isatty" not in each and "fileno" not in each] == []
