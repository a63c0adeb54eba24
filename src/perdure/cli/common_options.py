"""The options that commands share: which store, whose thread, in which form the answer is printed.

`store_address` is the one function that decides which store a command means.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from cyclopts import Parameter

from perdure.app import store as app
from perdure.app.opening import Address, files_of, parse, plain_storage
from perdure.app.options import StorageOptions, UserIdType, given
from perdure.app.options import hint as did_you_mean
from perdure.app.store import parts_of
from perdure.app.users import UserArg
from perdure.cli.hints import hint
from perdure.cli.output import OutputFormat, Terminal, write_error
from perdure.cli.problems import FAILED, STORE_VARIABLE, Stopped, UsageError
from perdure.core.codec import encode_result
from perdure.core.errors import InvalidInputError, StorageUnavailableError
from perdure.core.identity import ANY_USER
from perdure.core.limits import DecodeLimits, limits_given
from perdure.core.ports import Telemetry
from perdure.core.printable import printable, printable_json
from perdure.core.render import to_json
from perdure.storage.contract import Migrate, Storage
from perdure.storage.drive import drive
from perdure.storage.permissions import EXPOSED, PRIVATE, exposed, parse_file_mode
from perdure.sync import Perdure

T = TypeVar("T")

ThreadId = Annotated[
    str, Parameter(help="The id of the thread, a unique beginning of it, or the id of its newest run.")
]
Owner = Annotated[
    str | None, Parameter(help='The owner of the thread, where several users have one of this id; "" for nobody.')
]
Owned = Annotated[str | None, Parameter(help='Only threads of this user; "" for those that belong to nobody.')]
Handlers = Annotated[
    str,
    Parameter(
        help="The module (or file.py) that registers the handlers; MODULE:FUNCTION for another function than register."
    ),
]
Output = Annotated[
    OutputFormat,
    Parameter(name=["--output", "-o"], help="A table for people, or a format for programs.", show_default=True),
]
Flag = Annotated[bool, Parameter(negative="")]
Several = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
DryRun = Annotated[bool, Parameter(negative="", help="Only print what would happen.")]
Yes = Annotated[bool, Parameter(negative="", help="Do not ask for confirmation.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Which store a command works on, and how it is laid out."""

    store: str | None = None
    """The address of the store (or the first argument); without it PERDURE_STORE, .env or the nearest perdure.yaml."""

    config: str | None = None
    """A configuration file that names the store; options given here win over the file."""

    schema: str | None = None
    """PostgreSQL: the schema of the tables."""

    user_id_type: UserIdType | None = None
    """Servers: the type of user ids."""

    file_mode: str | None = None
    """Files: the mode of new files, in octal digits (600)."""

    max_decoded_bytes: int | None = None
    """The most bytes that a stored value may have (268435456)."""

    max_decoded_nodes: int | None = None
    """The most nodes (values and keys of mappings) that a stored value may have (2000000)."""

    @property
    def limits(self) -> DecodeLimits:
        """How large a stored value may be."""
        return limits_given(self.max_decoded_bytes, self.max_decoded_nodes)

    @property
    def options(self) -> StorageOptions:
        """Those of `open` that were given."""
        options: StorageOptions = {}
        if self.schema is not None:
            options["schema"] = self.schema
        if self.user_id_type is not None:
            options["user_id_type"] = self.user_id_type
        if self.file_mode is not None:
            options["file_mode"] = parse_file_mode(self.file_mode)
        if self.max_decoded_bytes is not None:
            options["max_decoded_bytes"] = self.max_decoded_bytes
        if self.max_decoded_nodes is not None:
            options["max_decoded_nodes"] = self.max_decoded_nodes
        return options

    def hint(
        self,
        name: str,
        *arguments: str,
        user: str | None = None,
        options: Mapping[str, str | bool | None] = MappingProxyType({}),
    ) -> str:  # fmt: skip
        """The command to type next, on the same store and namespace."""
        here = {
            "--user": user, "--namespace": getattr(self, "namespace", None) or None, "--schema": self.schema,
            "--user-id-type": self.user_id_type, "--file-mode": self.file_mode, "--config": self.config,
        }  # fmt: skip
        given = {option: value for option, value in here.items() if value is not None}
        return hint(name, self.store, arguments, {**options, **given})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ThreadOptions(StoreOptions):
    """Which threads a command works on, beside the store."""

    namespace: str = ""
    """The namespace of the threads."""


HERE, ANY_STORE = ThreadOptions(), StoreOptions()


class OpenedWith(NamedTuple):
    """An address, and the options of `Perdure.open`."""

    url: str
    options: dict[str, Any]


def store_address(at: StoreOptions, **more: Any) -> OpenedWith:
    """Which store a command means: --store (or a first argument that is an address), --config, else what is found.

    Found are PERDURE_STORE, a .env and the nearest perdure.yaml. Options that were typed win over those of a file.
    `more` are further options of `open`.
    """
    typed = {name: value for name, value in {**at.options, **more}.items() if value is not None}
    if isinstance(at, ThreadOptions) and at.namespace:
        typed["namespace"] = at.namespace
    typed.setdefault("migrate", "check")
    if at.store and at.config is not None:
        raise UsageError("name the store once: --store ADDRESS, or --config FILE")
    if at.config is not None:
        from perdure.app.config.config import Config

        return OpenedWith(*Config.load(at.config).opened(typed))
    if at.store:
        return OpenedWith(at.store, typed)
    from perdure.app.config.resolve import resolve_store

    found = resolve_store()
    if found.is_default:
        where = f"set {STORE_VARIABLE}, or write it into a perdure.yaml (perdure init)"
        raise UsageError(f"which store? give --store ADDRESS (such as sqlite:///agents.db), {where}")
    return OpenedWith(found.url, {**found.options, **typed})


@contextmanager
def opened_store(at: StoreOptions) -> Generator[Perdure]:
    """The store; one that does not exist, or has an older layout, is refused and not changed."""
    url, options = store_address(at)
    check_exists(url)
    warn_of_exposed_files(url, options)
    with Perdure.open(url, **options) as store:
        yield store


@asynccontextmanager
async def opened_async(where: OpenedWith, telemetry: Telemetry) -> AsyncGenerator[app.Perdure]:
    """The store for code that needs an event loop: handlers that are coroutines."""
    url, options = where
    check_exists(url)
    async with app.Perdure.open(url, telemetry=telemetry, **options) as store:
        await store.setup()
        yield store


@contextmanager
def opened_storage(at: StoreOptions, migrate: Migrate = "check") -> Generator[Storage]:
    """The storage without the store around it; one that does not exist is made only with "auto"."""
    url, options = store_address(at)
    if migrate == "check":
        check_exists(url)
    address = parse(url)
    plain = {name: value for name, value in options.items() if name in StorageOptions.__annotations__}
    warn_of_exposed_files(url, plain)
    storage = plain_storage(address, given(plain, address.scheme))
    try:
        drive(storage.setup(migrate))
        yield storage
    finally:
        drive(storage.close())


def inner(store: Perdure) -> app.Perdure:
    """The store inside of a synchronous one."""
    return store._store  # pyright: ignore[reportPrivateUsage]


def run_in(store: Perdure, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that a synchronous store has no method for."""
    return store._run(work)  # pyright: ignore[reportPrivateUsage]


def user_of(user: str | None, store: Perdure | app.Perdure) -> UserArg:
    """A user as it was typed; "" is nobody. Without one an operator means everybody, or the only match."""
    if user is None:
        return ANY_USER
    return parts_of(inner(store) if isinstance(store, Perdure) else store).users.typed(user)


_NOUNS = {"sqlite": "database", "file": "folder"}
_MADE = "; a program makes it when it first saves there"


def check_exists(url: str) -> None:
    """Raise `StorageUnavailableError` with a suggestion where there is no file or folder."""
    address = parse(url)
    if address.scheme in _NOUNS and not os.path.exists(address.path):
        reason = f"there is no {_NOUNS[address.scheme]} yet{_suggestion(address) or _MADE}"
        raise StorageUnavailableError(os.path.abspath(address.path), reason)


def _suggestion(address: Address) -> str:
    if address.scheme == "sqlite" and not os.path.isabs(address.path) and os.path.exists(f"/{address.path}"):
        return f", did you mean sqlite:////{address.path}? Four slashes begin a path from the root"
    folder, name = os.path.split(address.path)
    try:
        return did_you_mean(name, tuple(os.listdir(folder or ".")))
    except OSError:
        return f": there is no folder {os.path.abspath(folder)}"


def warn_of_exposed_files(url: str, options: Mapping[str, Any]) -> None:
    """Warn on standard error when other accounts may read or change the files of a storage."""
    warn_of_exposed(files_of(parse(url)), options)


def warn_of_exposed(paths: Iterable[str], options: Mapping[str, Any]) -> None:
    """The same for files; those that do not exist are skipped."""
    for each in exposed(paths, options.get("file_mode", PRIVATE))[:1]:
        write_error(f"warning: {EXPOSED}: {each.path!r} has mode {each.mode:04o}")


def check_can_ask() -> None:
    """Raise `UsageError` where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nobody can be asked here: give --yes, or --dry-run to only look")


def confirmed(question: str, yes: bool) -> None:
    """Return when somebody confirms, or did by --yes; raise where nobody can be asked, so that nothing hangs."""
    if yes:
        return
    check_can_ask()
    *preview, last = question.split("\n")
    for line in preview:
        write_error(line)
    answer = Terminal(stderr=True).ask(f"{last} [y/N]")
    if answer.strip().lower() not in ("y", "yes"):
        write_error("nothing was changed")
        raise Stopped(FAILED)


def parse_json(text: str | None, option: str) -> Any:
    """A value that was typed as JSON; None when none was."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise InvalidInputError(
            f"{option} must be JSON, not {text!r} ({exc}); a text has quotes: '\"{text}\"'"
        ) from None


def as_json(value: Any) -> msgspec.Raw:
    """A value of a user's as JSON; what JSON cannot carry is an object with one key such as $bytes."""
    return msgspec.Raw(to_json(encode_result(value)))


def fields_of_struct(struct: Any, *values: str) -> dict[str, Any]:
    """The fields of an answer for programs; those named are values of a user's own."""
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return fields | {name: as_json(fields[name]) for name in values}


def one_line(value: Any) -> str:
    """A value on one line as JSON, whole."""
    return printable(printable_json(bytes(as_json(value)).decode()))


def shortened(value: Any, width: int = 60) -> str:
    """The same, cut where it is long: not for what somebody decides about."""
    text = one_line(value)
    return text if len(text) <= width else text[: width - 1] + "…"
