"""`perdure completion bash|zsh|fish`, and what their scripts ask at each Tab: commands, options, ids and refs.

The answer must come within 200 ms: the options are read from the source of the command, since importing it with its
parser takes longer, and ids come from the storage without the store around it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perdure.cli.commands import COMMANDS, OF_TWO_WORDS
from perdure.cli.hints import quoted
from perdure.cli.output import write_plain
from perdure.cli.problems import ADDRESS, STORE_VARIABLE, typed_store
from perdure.core.printable import printable

if TYPE_CHECKING:
    import ast

    from perdure.storage.contract import Storage

Shell = Literal["bash", "zsh", "fish"]
MOST_IDS = 200
_THREAD_COMMANDS = frozenset({
    "cancel", "compare", "delete", "export", "fork", "history", "messages", "pauses", "redo", "repair", "rerun",
    "resume", "rewind", "show", "signal", "sizes", "start", "state", "tag", "timeline", "tree", "trust",
    "verify", "why",
})  # fmt: skip
_POINT_COMMANDS = frozenset({"compare", "fork", "rerun", "rewind", "state", "tag"})
_PAUSE_COMMANDS = frozenset({"answer", "approve", "decide", "deny"})
_WORDS = {
    "completion": ("bash", "zsh", "fish"),
    "config": ("check", "show", "migrate", "schema", "trust"),
    "key": ("show", "list", "add", "remove"),
}
_FORMATS = ("table", "json", "jsonl", "csv")
_SCRIPTS = {
    "bash": r"""
_perdure_complete() {
    local line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} each
    local whole=${line##*[[:space:]]}
    COMPREPLY=()
    while IFS= read -r each; do
        COMPREPLY+=("${each#"${whole%"$word"}"}")
    done < <(perdure __complete bash "$line" 2>/dev/null)
}
complete -o default -F _perdure_complete perdure
""",
    "zsh": r"""
#compdef perdure
_perdure() {
    local -a found
    found=("${(@f)$(perdure __complete zsh "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
if [[ "$funcstack[1]" == "_perdure" ]]; then _perdure "$@"; else compdef _perdure perdure; fi
""",
    "fish": r"""
complete -c perdure -f -a '(perdure __complete fish (commandline -opc) (commandline -ct) 2>/dev/null)'
""",
}


def completion(shell: Shell, /) -> None:
    """Print a script that completes commands, options, ids of threads and pauses, and refs in a shell.

    Ids come from the store of --store or PERDURE_STORE. Bash: eval "$(perdure completion bash)" in ~/.bashrc.

    Parameters
    ----------
    shell
        Which shell: bash, zsh or fish.
    """
    write_plain(_SCRIPTS[shell].strip("\n"))


def complete(arguments: Sequence[str]) -> int:
    """Print what the last word may become, each on a line; nothing where it cannot be told."""
    shell, words = arguments[0], list(arguments[1:])
    if shell == "bash":
        words = _split(words[0] if words else "")
    try:
        found = list(candidates(words[1:]))
    except Exception:  # a Tab must not print an error into the line that is typed
        return 0
    for each in found:
        if printable(each) == each:  # one that a terminal would obey is typed in full, escaped, or not at all
            write_plain(quoted(each) if shell == "bash" else each)
    return 0


def candidates(words: Sequence[str]) -> Iterator[str]:
    """What the last of the words of a command line may become."""
    current = words[-1] if words else ""
    if len(words) <= 1:
        yield from (name for name in COMMANDS if name.startswith(current))
        return
    command, before = words[0], words[-2]
    two = f"{words[0]} {words[1]}"
    if len(words) == 2 and any(each.startswith(f"{command} ") for each in OF_TWO_WORDS) and current:
        yield from (each.split()[1] for each in OF_TWO_WORDS if each.startswith(f"{command} {current}"))
    if current.startswith("-") and "--" not in words[:-1]:
        names = options_of(two if two in OF_TWO_WORDS else command)
        yield from sorted(name for name in names if name.startswith(current))
    elif before in ("-o", "--output"):
        yield from (each for each in _FORMATS if each.startswith(current))
    elif command in _WORDS and len(words) == 2:
        yield from (each for each in _WORDS[command] if each.startswith(current))
    elif command in _PAUSE_COMMANDS | _THREAD_COMMANDS:
        yield from _stored(words, command, current)


def options_of(command: str) -> set[str]:
    """The options of a command, as its source has them."""
    import ast  # not at each Tab: it takes as long as reading the ids

    every = COMMANDS | OF_TWO_WORDS
    if command not in every:
        return {"--help"}
    module, _, function = every[command].target.partition(":")
    tree = ast.parse(_source(module))
    shared = ast.parse(_source("perdure.cli.common_options"))
    inspect = ast.parse(_source("perdure.cli.inspect")) if module.endswith("travel") else ast.parse("")
    aliases = {**_aliases(shared), **_aliases(inspect), **_aliases(tree)}
    made = next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function)
    names = {"--help"}
    for argument in made.args.kwonlyargs:
        annotation = argument.annotation
        if isinstance(annotation, ast.Name) and annotation.id in ("StoreOptions", "ThreadOptions"):
            names |= _fields(shared, annotation.id)
        else:
            names |= _names(argument.arg, aliases.get(getattr(annotation, "id", ""), annotation))
    return names


def _source(module: str) -> str:
    return (Path(__file__).parent / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8")


def _aliases(tree: ast.Module) -> dict[str, ast.expr]:
    import ast

    assigned = [each for each in tree.body if isinstance(each, ast.Assign)]
    return {each.targets[0].id: each.value for each in assigned if isinstance(each.targets[0], ast.Name)}


def _fields(shared: ast.Module, name: str) -> set[str]:
    """The options of one of the shared classes, and of that below it."""
    import ast

    made = next(each for each in shared.body if isinstance(each, ast.ClassDef) and each.name == name)
    targets = [each.target for each in made.body if isinstance(each, ast.AnnAssign)]
    own = {_option(each.id) for each in targets if isinstance(each, ast.Name)}
    return own.union(*(_fields(shared, base.id) for base in made.bases if isinstance(base, ast.Name)))


def _names(argument: str, annotation: ast.expr | None) -> set[str]:
    """The names of one option: those of its Parameter, else its own; a flag has a negative too."""
    import ast

    given: dict[str, ast.expr] = {}
    for call in ast.walk(annotation) if annotation is not None else ():
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Parameter":
            given = {each.arg: each.value for each in call.keywords if each.arg}
    if "show" in given and not ast.literal_eval(given["show"]):
        return set()
    names = set(_texts(given["name"])) if "name" in given else {_option(argument)}
    if "negative" in given:
        return names | set(_texts(given["negative"]))
    plain = annotation.left if isinstance(annotation, ast.BinOp) else annotation  # bool, or bool | None
    is_flag = isinstance(plain, ast.Name) and plain.id == "bool"
    return names | ({f"--no-{argument.replace('_', '-')}"} if is_flag else set())


def _texts(node: ast.expr) -> Iterable[str]:
    import ast

    value = ast.literal_eval(node)
    return [each for each in ([value] if isinstance(value, str) else value) if each]


def _option(name: str) -> str:
    return f"--{name.strip('_').replace('_', '-')}"


def _split(line: str) -> list[str]:
    """The words of a line that is still being typed."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote is open
        words = line.split()
    return words if line[-1:].strip() else [*words, ""]


def _stored(words: Sequence[str], command: str, current: str) -> Iterator[str]:
    url = typed_store(words) or os.environ.get(STORE_VARIABLE) or _found_store()
    if not ADDRESS.match(url) or url == current:
        return
    from perdure.app.opening import parse, plain_storage
    from perdure.storage.drive import drive

    address = parse(url)
    options = {"retry_seconds": 0, "call_timeout": 1.0} if address.scheme in ("postgresql", "mysql") else {}
    if address.scheme in ("sqlite", "file") and not os.path.exists(address.path):
        return
    storage = plain_storage(address, options)
    try:
        drive(storage.setup("check"))
        yield from drive(_ids(storage, _value_of(words, "--namespace"), command, current))
    finally:
        drive(storage.close())


def _found_store() -> str:
    """The store of the nearest perdure.yaml; its reader is not loaded where there is none."""
    from perdure.app.config.resolve import find_config, resolve_store

    return resolve_store().url if find_config() else ""


async def _ids(storage: Storage, namespace: str, command: str, current: str) -> list[str]:
    from perdure.core.threads import ThreadQuery

    if command in _PAUSE_COMMANDS:
        return await _pauses(storage, namespace, current)
    thread, at, ref = current.rpartition("@")
    if at and command in _POINT_COMMANDS and thread:
        refs = await _refs(storage, namespace, thread)
        return [f"{thread}@{each}" for each in refs if each.startswith(ref)]
    found = await storage.threads(ThreadQuery(namespace=namespace, search=current or None, limit=MOST_IDS))
    return list(dict.fromkeys(row.key.id for row in found if row.key.id.startswith(current)))


async def _pauses(storage: Storage, namespace: str, current: str) -> list[str]:
    from perdure.core.runs import DECIDED, PAUSED
    from perdure.core.threads import ThreadQuery
    from perdure.runtime.questions import open_questions

    found: list[str] = []
    for status in (PAUSED, DECIDED):
        for row in await storage.threads(ThreadQuery(namespace=namespace, status=status, limit=MOST_IDS)):
            found += [each.id_in(row) for each in await open_questions(storage, row)]
    return [each for each in found if each.startswith(current)]


async def _refs(storage: Storage, namespace: str, thread: str) -> list[str]:
    from perdure.core.checkpoint import CheckpointQuery

    rows = await storage.find(namespace, thread)
    if len(rows) != 1:
        return []
    points = await storage.checkpoints(rows[0].key, CheckpointQuery(limit=20, present=True))
    return ["-1", "-2", "before-error", *(each.mark.id for each in points)]


def _value_of(words: Sequence[str], option: str) -> str:
    for at, word in enumerate(words[:-1]):
        if word == option:
            return words[at + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return ""
