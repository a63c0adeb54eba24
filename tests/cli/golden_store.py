"""A small store and every command on it, with what the commands printed: `python -m tests.cli.golden_store` records.

What differs from store to store and from day to day (ids, times, sizes, places) is a word in the record, so that one
record holds for every storage.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from perdure.cli.commands import COMMANDS, OF_TWO_WORDS
from perdure.cli.main import main
from perdure.cli.problems import STORE_VARIABLE
from perdure.sync import Perdure

GOLDEN = Path(__file__).parent / "golden"
AGENTS = """\
def register(store):
    @store.handler("support")
    async def support(run):
        await run.append("messages", {"role": "user", "content": run.input})
        plan = await run.step("plan", lambda: {"city": "Rome"})
        decision = await run.pause("deploy", ask="Deploy to production?", args={"env": "prod"})
        if decision:
            await run.tool("deploy", lambda env: f"deployed to {env}", **decision.args)
        return plan

    @store.handler("asks")
    async def asks(run):
        return (await run.pause("region", ask="Which region?", expects=["eu", "us"])).answer

    @store.handler("fails")
    async def fails(run):
        await run.step("look up", lambda: {}["customer"])

    @store.handler("waits")
    async def waits(run):
        return await run.signal("paid")
"""
WORKFLOW = """\
workflow: {name: greet, checkpoint: true}
inputs: {name: text}
steps:
  - {name: hello, agent: greeter, input: "{{ inputs.name }}"}
  - {name: ok, approval: "Greet {{ inputs.name }}?"}
"""
FLOWS = """\
from perdure.workflows import WorkflowExecutor


def executor(store):
    return WorkflowExecutor({"greeter": lambda name: f"Hello, {name}!"}, store=store)
"""
# Each is run with -o table, json, jsonl and csv where it has them, before the next one.
LOOKS = """\
threads
threads --search TICKET --limit 1
show ticket-42
state ticket-42
state ticket-42@1 --path context
messages ticket-42 --limit 2
timeline ticket-42 --limit 2
timeline ticket-42 --last 1
history ticket-42
tree ticket-42
compare ticket-42@1 ticket-42@2
why order-1
runs
top --once
tag ticket-42
pauses
pauses order-1
sizes ticket-42 --depth 1
verify
verify ticket-42
repair ticket-42
rewind ticket-42@1 --dry-run
delete ticket-42 --dry-run
prune --last 1 --dry-run
key list
memory list carol
memory search carol where
memory stats carol
""".splitlines()
STEPS = """\
version
completion fish
config check none.yaml
demo --vs nothing
fork ticket-42@1 --to branch --set context.city=Oslo
state branch
fork ticket-42@1 --to branch
rewind ticket-42@1
rewind ticket-42@1 --yes
redo ticket-42
tag ticket-42@1 first
tag ticket-42@tag:first second
tag ticket-42 second --remove
start waits order-2 --input 7
signal order-2 paid 5
cancel order-2 --reason late
cancel order-2
resume order-3 --handlers agents.py
why order-3
approve pau_ --by ann
approve PAUSE --by ann
approve PAUSE --by bob
resume order-1 --handlers agents.py
resume order-1 --handlers agents.py
start asks order-4
resume order-4 --handlers agents.py
answer PAUSE mars --by ann
answer PAUSE eu --by ann
resume order-4 --handlers agents.py -o json
start support order-5 --input hi
start support order-5 --input "hi"
resume order-5 --handlers agents.py
deny PAUSE --by ann --text no
resume order-5 --handlers agents.py
start asks order-6
resume order-6 --handlers agents.py
decide PAUSE --approve --by ann --choice us
rerun order-1 --handlers agents.py --to again
worker nothing.py
export ticket-42 out.perdure
import out.perdure --user alice --to came
import out.perdure
trust came --dry-run
trust came
trust came --yes --by ann
copy file:./copied
prune --last 1
prune --last 1 --yes
compact
delete branch
delete branch none --yes
delete branch --yes
delete bran --yes
forget carol --dry-run
forget alice
forget carol --yes
memory add alice tea --tag drink --kind preference
memory add alice colour=blue --extract
memory add alice colour=red --extract
memory add alice nothing --extract
memory list alice --all
memory search alice blue -o table
memory stats alice
memory forget alice --all --dry-run
memory history alice none
memory forget alice none --yes
memory forget alice --yes
memory forget alice --all
memory forget alice --all --yes
views
workflow check workflow.yaml
workflow check none.yaml
workflow schema
workflow show workflow.yaml
run workflow.yaml --handlers flows.py
run workflow.yaml --handlers flows.py --input name=Ann --thread flow-1
workflow show workflow.yaml --thread flow-1
approve PAUSE --by ann
run workflow.yaml --handlers flows.py --input name=Ann --thread flow-1
workflow show workflow.yaml --thread flow-1
doctor --store memory://
init
usage
restored --by ann
key show
schema memory://
show nothing
show order
threads --nothing
thread
state ticket-42@99
state ticket-42@soon
export langgraph --to x.db
import langgraph none.db
""".splitlines()
NOT_THE_SAME = (
    "key show",
    "schema",
    "compact",
    "prune --last 1 --yes",
    "copy",
    "import langgraph",
    "views",
    "forget",
    "doctor",
)


def fill(url: str, **options: Any) -> None:
    """Threads, runs and a question, made as a program makes them."""
    with Perdure.open(url, **options) as store:
        ticket = store.thread("ticket-42", user="alice", agent="support", name="A ticket", tags=("vip",))
        ticket.update(
            set={"context": {"city": "Paris"}}, append={"messages": [{"role": "user", "content": "hi\nthere"}]}
        )
        ticket.save({"context": {"city": "Rome"}, "messages": []}, note="before deploy", status="ready")
        ticket.add_messages({"role": "assistant", "content": "hello"}, {"role": "user", "content": "thanks"})
        ticket.tag("@1", "good")
        for name, handler in (("order-1", "support"), ("order-3", "fails")):
            store.start(handler, "hi", thread=name)


class Told:
    """A command, its exit code and what it printed."""

    def __init__(self, words: list[str], code: int, out: str, err: str) -> None:
        self.words, self.code, self.out, self.err = words, code, out, err


def call(*words: str) -> Told:
    """Run a command in this process."""
    out, err = StringIO(), StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as exc:
            code = int(exc.code or 0)
    return Told(list(words), code, out.getvalue(), err.getvalue())


@contextmanager
def placed(folder: Path, url: str) -> Iterator[None]:
    """The folder and the store that commands work in."""
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(folder)
    os.environ[STORE_VARIABLE] = url
    os.environ.update(NO_COLOR="1", COLUMNS="120")
    (folder / "agents.py").write_text(AGENTS)
    (folder / "workflow.yaml").write_text(WORKFLOW)
    (folder / "flows.py").write_text(FLOWS)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)


def every(folder: Path) -> Iterator[Told]:
    """Every command, one after the other."""
    yield call("resume", "order-1", "--handlers", "agents.py")
    for line in LOOKS:
        for form in ("table", "json", "jsonl", "csv"):
            yield call(*line.split(), "-o", form)
    pause = ""
    for line in STEPS:
        words = line.split()
        if "PAUSE" in words and "--by bob" not in line and not (line.startswith("answer") and "eu" in words):
            pause = _open_pause()
        yield call(*(pause if word == "PAUSE" else word for word in words))


def _open_pause() -> str:
    """The pause as a person reads it off the list."""
    return call("pauses").out.split()[0]


_WORDS = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)", "TIME"),
    (r"\d\d:\d\d:\d\dZ", "CLOCK"),
    (r"\d+ (?:s|min|h) ago", "AGO"),
    (r"pau_[\w=.-]+", "PAUSE"), (r"(chk|run|fact)_[0-9a-z]+", r"\1_ID"),
    (r"key [0-9a-f]{8,}", "key ID"), (r"\b[0-9a-f]{64}\b", "SHA"), (r"\b[0-9a-f]{16}\b", "ID"),
    (r"[\d.,]+ (?:bytes|B|kB|MB)\b", "SIZE"), (r'("{1,2}\w*(?:bytes|size|share|disk|sizes)\w*"{1,2}: ?)[\d.]+', r"\1N"),
    (r"[\d.]+%", "SHARE"), (r"(TIME +)\d+( +(?:kept|dropped|over):?)", r"\1SIZE\2"),
    (r"(Python|SQLite) \d+\.\d+\.\d+", r"\1 VERSION"),
    (r"opens in \d+ ms", "opens in MS"),
    (r"\b[0-9a-hjkmnp-tv-z]{26}\b", "UID"),
    (r"pdk_[0-9a-f]+", "KEY"),
    (r"incarnation [0-9a-f]+", "incarnation ID"),
)  # fmt: skip


def steady(told: Told, folder: Path) -> str:
    """What was printed, without what differs each time."""
    text = f"{told.out}{''.join(f'! {line}' for line in told.err.splitlines(keepends=True))}"
    text = text.replace(str(folder), "FOLDER")
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    # Columns are as wide as what is in them.
    text = re.sub(r" {2,}", "  ", text)
    typed = " ".join("PAUSE" if each.startswith("pau_") else each for each in told.words)
    return f"$ perdure {typed}\n{text}[{told.code}]\n"


def record(folder: Path) -> list[str]:
    """What each command printed on the store of this place."""
    return [steady(each, folder) for each in every(folder)]


def recorded() -> list[str]:
    """What each of them printed when it was recorded."""
    return (GOLDEN / "commands.txt").read_text(encoding="utf-8").split("\n\f\n")


def is_the_same_everywhere(printed: str) -> bool:
    """Whether a command prints the same on every storage."""
    return not printed.removeprefix("$ perdure ").startswith(NOT_THE_SAME)


def help_pages() -> str:
    """The help of all commands."""
    return "\n".join(call(*name.split(), "--help").out for name in ("", *(COMMANDS | OF_TWO_WORDS)))


def _main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/agents.db"
        fill(url)
        with placed(folder, url):
            printed = record(folder)
            helped = help_pages()
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "commands.txt").write_text("\n\f\n".join(printed), encoding="utf-8")
    (GOLDEN / "help.txt").write_text(helped, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(_main())
