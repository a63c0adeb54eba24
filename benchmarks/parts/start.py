"""Starting: the import, and the command line's help."""

from __future__ import annotations

import site
import subprocess
import sys
from pathlib import Path

import perdure
from benchmarks.report import Figure, compared
from benchmarks.scale import Bench
from benchmarks.timing import Step, interleave, summary, timed

_BARE = [sys.executable, "-I", "-S", "-c"]


def run(bench: Bench) -> None:
    """Interpreter runs that differ in one import."""
    _imports(bench)
    _help(bench)


def _imports(bench: Bench) -> None:
    """The bare import loads no engine, so the bar is held by the import that somebody can work with."""
    lines = ("from perdure import Perdure", "import perdure", "import json")
    samples = interleave("import", bench.scale.repeats, {line: _importing(line) for line in lines})
    name = "`from perdure import Perdure` ÷ `import json`, whole runs of `python -I -S`"
    bench.found(compared(name, lines[0], lines[2], samples, bar=4))
    bench.found(compared("`import perdure` alone ÷ `import json`", lines[1], lines[2], samples))


def _importing(line: str) -> Step:
    """Without site there is no path to installed packages, so both sides get the same one by hand."""
    paths = [str(Path(perdure.__file__).parents[1]), *site.getsitepackages()]
    command = [*_BARE, f"import sys; sys.path += {paths!r}; {line}"]
    subprocess.run(command, check=True)
    return lambda _: timed(lambda: subprocess.run(command, check=True))


def _help(bench: Bench) -> None:
    name = "`perdure --help`"
    command = [str(Path(sys.executable).with_name("perdure")), "--help"]
    if not Path(command[0]).exists() or subprocess.run(command, capture_output=True, check=False).returncode:
        bench.found(Figure(name=name, value=None, unit="ms", bar=150, note="there is no command line yet"))
        return
    sides: dict[str, Step] = {
        "--help": lambda _: timed(lambda: subprocess.run(command, capture_output=True, check=True)),
        "python -I -c pass": lambda _: timed(lambda: subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)),
    }
    samples = interleave("help", bench.scale.repeats, sides)
    found = {each: summary(samples[each]) for each in samples}
    value, calm = found["--help"].median * 1e3, found["--help"].p10 * 1e3
    bench.found(Figure(name=name, value=value, calm=calm, unit="ms", bar=150, sides=found))
