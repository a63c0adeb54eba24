"""Everything that the command line prints, and the only module of it that prints.

Data goes to standard output, everything else (errors, warnings, hints, progress, questions) to standard error.

Whatever is written here is shown without control, bidi and invisible characters (`core.printable`). A line break in a
text for people begins a new line, so a value that was stored goes through `printable` before it is put into a line.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TextIO

from perdure.core.addresses import redact_words
from perdure.core.printable import escaped, printable, printable_json

if TYPE_CHECKING:
    from pathlib import Path

OutputFormat = Literal["table", "json", "jsonl", "csv"]
PROGRESS_AFTER_SECONDS = 1.0  # shorter work needs no bar
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run instead of showing
Progress = Callable[[int, int], None]  # how much is done, of how much


class Terminal:
    """A stream for people. It is imported without rich, which takes longer to load than `perdure --help` to print."""

    def __init__(self, *, stderr: bool = False, **recording: Any) -> None:
        from rich.console import Console

        self._console = Console(stderr=stderr, highlight=False, **recording)

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self._console.is_terminal

    def write(self, text: str, style: str = "", highlights: Iterable[tuple[str, str]] = ()) -> None:
        """Print lines in a style; `highlights` are patterns with styles of their own."""
        from rich.text import Text

        shown = Text(_lines(text), style=style)
        for pattern, own in highlights:
            shown.highlight_regex(pattern, own)
        # Not by the console's own means: it would wrap lines, and take text in brackets for markup.
        self._console.print(shown, soft_wrap=True)

    def write_python(self, source: str) -> None:
        """Print a piece of Python, coloured on a terminal."""
        from rich.syntax import Syntax

        if not self.is_terminal:
            self.write(source)
            return
        code = Syntax(_lines(source), "python", theme="ansi_dark", background_color="default", word_wrap=True)
        self._console.print(code)

    def write_table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print figures side by side."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for column in columns:
            table.add_column(Text(printable(column)), no_wrap=True)
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        self._console.print(table)

    def ask(self, words: str, default: str = "") -> str:
        """What a person types; Enter alone is the default, which is returned as it is, whatever it looks like."""
        from rich.prompt import Prompt
        from rich.text import Text

        shown = f"{printable(words)} ({printable(default)})" if default else printable(words)
        typed = Prompt.ask(Text(shown), console=self._console, default="", show_default=False)
        return typed or default

    def choose(self, words: str, choices: Sequence[str]) -> str:
        """One of some words, asked for until it is one."""
        from rich.prompt import Prompt
        from rich.text import Text

        return Prompt.ask(Text(printable(words)), console=self._console, choices=list(choices))

    @contextmanager
    def progress(self, what: str) -> Generator[Progress]:
        """A bar with an estimate, on a terminal only, once the work has taken a second."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn(what, markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Bar(*columns, console=self._console, transient=True, disable=not self.is_terminal)
        task, begun = bar.add_task("", total=None), monotonic()

        def update(done: int, total: int) -> None:
            if not bar.live.is_started and monotonic() - begun >= PROGRESS_AFTER_SECONDS:
                bar.start()
            bar.update(task, completed=done, total=total)

        try:
            yield update
        finally:
            if bar.live.is_started:
                bar.stop()

    def watch(self, frames: Iterable[Iterable[tuple[str, str]]]) -> None:
        """Show one frame of lines after the other in the same place, until there is none or Ctrl-C."""
        from rich.live import Live
        from rich.text import Text

        with suppress(KeyboardInterrupt), Live(console=self._console, screen=True, auto_refresh=False) as live:
            for frame in frames:
                lines = [Text(_lines(line), style=style, no_wrap=True) for line, style in frame]
                live.update(Text("\n").join(lines), refresh=True)

    def save_svg(self, path: Path, title: str, template: str) -> None:
        """Keep what was printed so far as a picture; only of an output that records."""
        path.write_text(self._console.export_svg(title=title, code_format=template, clear=False), encoding="utf-8")


def write(text: str, style: str = "") -> None:
    """Print lines for people on standard output."""
    Terminal().write(text, style)


def write_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines, each in its style."""
    terminal = Terminal()
    for line, style in lines:
        terminal.write(line, style)


@contextmanager
def progress(what: str) -> Generator[Progress]:
    """A bar on standard error while work goes on that takes longer than a second."""
    with Terminal(stderr=True).progress(what) as update:
        yield update


def write_data(value: Any, output: OutputFormat) -> None:
    """Print an answer for programs: one JSON document, one JSON line for each item, or CSV with a row for each item.

    CSV cells of text are escaped as for people, and those that a spreadsheet would take for a formula begin with `'`:
    use JSON where the exact text is needed.
    """
    import msgspec

    if output == "json":
        write_json(value)
        return
    items: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    if output == "jsonl":
        for each in items:
            _print(printable_json(msgspec.json.encode(each).decode()), sys.stdout)
        return
    import csv

    rows = [msgspec.json.decode(msgspec.json.encode(each)) for each in items]
    rows = [row if isinstance(row, dict) else {"value": row} for row in rows]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if columns:
        writer.writerow([_cell(name) for name in columns])
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in columns])


def _cell(value: Any) -> str:
    import msgspec

    if value is None:
        return ""
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return printable(printable_json(msgspec.json.encode(value).decode()))


def write_next(*commands: str) -> None:
    """Print commands to type next on standard error; each works when it is pasted."""
    for each in commands:
        write_error(f"next: {each}")


def write_plain(text: str) -> None:
    """Print lines without a style; nothing has to be imported for it."""
    _print(_lines(text), sys.stdout)


def write_json(value: Any, *, stderr: bool = False) -> None:
    """Print a value for programs, with two spaces for people who look."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    _print(printable_json(text), sys.stderr if stderr else sys.stdout)


def write_plain_json(text: bytes) -> None:
    """Print a JSON text with line breaks."""
    import msgspec

    _print(printable_json(msgspec.json.format(text, indent=2).decode()), sys.stdout)


def write_error(text: str) -> None:
    """Print lines on standard error."""
    _print(_lines(text), sys.stderr)


def write_exception(exc: BaseException, words: Iterable[str]) -> None:
    """Print a traceback on standard error, without the passwords of the words that were typed."""
    write_error(redact_words("".join(traceback.format_exception(exc)).rstrip("\n"), words))


@contextmanager
def safe_streams() -> Generator[None]:
    """Print Python's own warnings here too, and what an output cannot encode as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # what a test puts there may lack it
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        yield


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:  # fmt: skip
    write_error(f"warning: {printable(str(message))}")


def _lines(text: str) -> str:
    return "\n".join(map(escaped, text.split("\n")))


def _print(text: str, file: TextIO) -> None:
    print(text, file=file)
