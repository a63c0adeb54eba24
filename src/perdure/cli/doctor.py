"""`perdure doctor`: drivers, configuration, store, server settings, clock, disk and rights, each with the next step."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from statistics import median
from typing import Any, Literal, NamedTuple

from perdure.app.config.resolve import StoreAddress, resolve_store
from perdure.app.opening import Address, files_of, parse
from perdure.cli.common_options import Output
from perdure.cli.output import write, write_data
from perdure.core.addresses import display_url, redact_url
from perdure.core.errors import MissingExtraError, PerdureError
from perdure.core.extras import check_releases, missing
from perdure.core.printable import printable
from perdure.storage.permissions import PRIVATE, exposed

OK, FAILED, UNAVAILABLE = 0, 1, 7
Level = Literal["ok", "warning", "failed"]
_SLOW_SYNC, _SLOW_TRIP = 0.020, 0.020  # seconds: what a save waits for, once or twice
_LEAST_FREE = 1 << 30
_MOST_SKEW = 2.0  # seconds between this machine and a server
_PROBES = 9
_DRIVERS = {"postgresql": ("postgres", "psycopg"), "mysql": ("mysql", "pymysql")}


class Finding(NamedTuple):
    """One thing that was looked at."""

    check: str
    level: Level
    text: str
    next: str = ""


def doctor(*, store: str | None = None, config: str | None = None, output: Output = "table") -> int:
    """Look at the installation, the store and the machine, and say what to do about what is wrong or slow.

    Nothing is changed; a probe file is written beside the store and removed. The exit code is 0 where nothing failed
    (there may be warnings), 7 where the store cannot be reached, 5 for a configuration with mistakes, else 1.

    Parameters
    ----------
    store
        The address of the store; without it PERDURE_STORE, .env and the nearest perdure.yaml are asked.
    config
        A configuration file that names the store.
    """
    where = resolve_store(store, config)
    findings = list(_findings(where))
    if output != "table":
        write_data([each._asdict() for each in findings], output)
    else:
        for each in findings:
            write(f"{each.level:<8} {each.check:<14} {printable(each.text)}", _STYLES[each.level])
            if each.next:
                write(f"{'':<23} next: {printable(each.next)}")
    failed = {each.check for each in findings if each.level == "failed"}
    return UNAVAILABLE if "store" in failed else FAILED if failed else OK


_STYLES = {"ok": "", "warning": "yellow", "failed": "red"}


def _findings(where: StoreAddress) -> Iterator[Finding]:
    address = parse(where.url)
    yield _python()
    yield from _drivers(address, where.options)
    yield Finding("configuration", "ok", f"{display_url(where.url)} by {where.origin}")
    reached = _store(where)
    yield reached
    if address.scheme in ("sqlite", "file"):
        yield from _local(address, where.options)
    if address.scheme in _DRIVERS and reached.level != "failed":
        yield from _guarded("server", lambda: _SERVERS[address.scheme](address, where.options))
    if "hot" in where.options:
        yield from _guarded("hot layer", lambda: _redis(where.options["hot"]))


def _guarded(check: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check; what a driver raises is one too, without its text, which may hold an address."""
    try:
        yield from list(look())
    except Exception as exc:  # of whichever driver
        yield Finding(
            check, "failed", f"it does not answer ({type(exc).__name__})", "is it running, and may you connect?"
        )


def _python() -> Finding:
    import sqlite3

    from perdure.cli.version import installed_version

    text = f"perdure {installed_version()}, Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    return Finding("installation", "ok", text)


def _drivers(address: Address, options: dict[str, Any]) -> Iterator[Finding]:
    wanted = [_DRIVERS[address.scheme]] if address.scheme in _DRIVERS else []
    wanted += [("redis", "redis")] if "hot" in options else []
    wanted += [("webhooks", "httpx")] if options.get("webhooks") else []
    for extra, module in [*wanted, ("config", "ruamel.yaml"), ("cli", "cyclopts")]:
        try:
            __import__(module)
            check_releases("it", extra)
        except (ImportError, MissingExtraError) as exc:
            error = exc if isinstance(exc, MissingExtraError) else missing("it", extra)
            yield Finding(
                "drivers", "failed", f"{module} is missing or too old ({error})", f"pip install 'perdure[{extra}]'"
            )
        else:
            yield Finding("drivers", "ok", f"{module} for perdure[{extra}]")


def _store(where: StoreAddress) -> Finding:
    """Whether the store opens, in the layout of this release, and how long that takes."""
    from perdure.cli.common_options import check_exists
    from perdure.sync import Perdure

    shown = redact_url(where.url)
    try:
        check_exists(where.url)
        started = time.monotonic()
        options: dict[str, Any] = {
            name: value for name, value in where.options.items() if name not in ("retention", "webhooks")
        }
        options["migrate"] = "check"
        with Perdure.open(where.url, **options) as store:
            store.setup()
            for _ in store.threads(limit=1):
                break
        return Finding("store", "ok", f"{shown} opens in {(time.monotonic() - started) * 1000:.0f} ms")
    except PerdureError as exc:
        text = " ".join(str(exc).split()).replace(where.url, shown)
        step = (
            "start a program that saves there, or run `perdure init`"
            if "there is no" in text
            else "see the guide of this storage"
        )
        return Finding("store", "failed", text, step)


def _local(address: Address, options: dict[str, Any]) -> Iterator[Finding]:
    path = os.path.abspath(address.path)
    folder = path if address.scheme == "file" and os.path.isdir(path) else os.path.dirname(path)
    if not os.path.isdir(folder):
        yield Finding("rights", "failed", f"there is no folder {folder}", f"mkdir -p {folder}")
        return
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        yield Finding("rights", "failed", f"you may not write in {folder}", f"ls -ld {folder} shows who may")
        return
    open_to_others = exposed(files_of(address), options.get("file_mode", PRIVATE))
    for each in open_to_others[:1]:
        yield Finding("rights", "warning", f"other accounts may read or change {each.path}", f"chmod 600 {each.path}")
    if not open_to_others:
        yield Finding("rights", "ok", f"you may write in {folder}, others may not")
    yield _free(folder)
    yield from _disk(folder)
    if address.scheme == "sqlite" and os.path.exists(path):
        yield from _guarded("server", lambda: _sqlite(path))


def _free(folder: str) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.1f} GB are free"
    if free < _LEAST_FREE:
        return Finding("disk", "warning", text, "make room, or `perdure prune` and `perdure compact`")
    return Finding("disk", "ok", text)


def _disk(folder: str) -> Iterator[Finding]:
    """How long the disk takes to keep 4 KB, which every save waits for, and whether its clock is this machine's."""
    path = os.path.join(folder, f".perdure-doctor-{os.getpid()}")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            times = [_synced(handle) for _ in range(_PROBES)]
            skew = abs(os.fstat(handle).st_mtime - time.time())
        finally:
            os.close(handle)
            os.unlink(path)
    except OSError as exc:
        yield Finding(
            "disk",
            "failed",
            f"a probe file cannot be written in {folder}: {exc.strerror}",
            "make room, or check the rights",
        )
        return
    took = median(times)
    text = f"a sync of 4 KB takes {took * 1000:.2f} ms"
    slow = "use a local disk; a network or an overlay file system syncs slowly"
    yield Finding("disk", "warning", text, slow) if took > _SLOW_SYNC else Finding("disk", "ok", text)
    yield _clock(skew, "the file system")


def _synced(handle: int) -> float:
    started = time.perf_counter()
    os.write(handle, b"\0" * 4096)
    os.fsync(handle)
    return time.perf_counter() - started


def _clock(skew: float, whose: str) -> Finding:
    text = f"this machine and {whose} differ by {skew:.1f} s"
    if skew > _MOST_SKEW:
        return Finding("clock", "warning", text, "synchronise both with NTP: leases and deadlines are times")
    return Finding("clock", "ok", text)


def _sqlite(path: str) -> Iterator[Finding]:
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=2)) as database:
        mode = database.execute("PRAGMA journal_mode").fetchone()[0]
        pages, free = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count"))
    if mode != "wal":
        yield Finding(
            "server", "warning", f"journal_mode is {mode}", "open the store once with perdure; WAL needs a local disk"
        )
    else:
        yield Finding("server", "ok", "journal_mode is wal")
    wal = os.path.getsize(f"{path}-wal") if os.path.exists(f"{path}-wal") else 0
    if wal > 256 << 20:
        yield Finding("slow", "warning", f"the WAL has {wal >> 20} MB", "close readers that stay open for long")
    if pages and free * 2 > pages and pages > 1000:
        yield Finding("slow", "warning", f"{free} of {pages} pages are unused", "perdure compact")


def _postgres(address: Address, options: dict[str, Any]) -> Iterator[Finding]:
    import psycopg

    given = {"password": _password(options)} if "password" in options else {}
    with psycopg.connect(address.url, connect_timeout=5, autocommit=True, **given) as database:
        settings = {
            name: database.execute("SELECT current_setting(%s, true)", (name,)).fetchone()[0]  # type: ignore[index]
            for name in ("server_version", "fsync", "full_page_writes", "synchronous_commit")
        }
        server: datetime = database.execute("SELECT clock_timestamp()").fetchone()[0]  # type: ignore[index]
        skew = abs((datetime.now(UTC) - server).total_seconds())
        schema = options.get("schema", "perdure")
        query = "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"
        allowed = database.execute(query, (schema,)).fetchone()
        times = [_timed(lambda: database.execute("SELECT 1")) for _ in range(_PROBES)]
    yield Finding("server", "ok", f"PostgreSQL {settings.pop('server_version')}")
    for name, value in settings.items():
        if value == "off":
            yield Finding(
                "server", "warning", f"{name} is off: a power loss may lose what was saved", f"set {name} = on"
            )
        else:
            yield Finding("server", "ok", f"{name} is {value}")
    if allowed is not None and not allowed[0]:
        yield Finding("rights", "failed", f"you may not use schema {schema}", f"GRANT USAGE ON SCHEMA {schema} TO you")
    yield _clock(skew, "the server")
    yield _trip(median(times))


def _mysql(address: Address, options: dict[str, Any]) -> Iterator[Finding]:
    import pymysql

    from perdure.storage.mysql.address import read_address

    at = read_address(address.url)
    given: dict[str, Any] = {
        "host": at.host, "port": at.port, "user": at.user or None, "database": at.database, "connect_timeout": 5,
        "password": _password(options) if "password" in options else at.password, "ssl": at.ssl_context(),
        **{name: value for name, value in at.options.items() if name == "unix_socket"},
    }  # fmt: skip
    database: Any = pymysql.connect(**given)
    with database, database.cursor() as cursor:
        names = ("version", "innodb_flush_log_at_trx_commit", "sync_binlog", "max_allowed_packet")
        cursor.execute("SELECT @@version, @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@max_allowed_packet")
        settings = dict(zip(names, cursor.fetchone() or (), strict=True))
        cursor.execute("SELECT UNIX_TIMESTAMP(NOW(6))")
        skew = abs(time.time() - float((cursor.fetchone() or (0,))[0]))
        times = [_timed(lambda: cursor.execute("SELECT 1")) for _ in range(_PROBES)]
    yield Finding("server", "ok", f"MySQL or MariaDB {settings['version']}")
    flush = settings["innodb_flush_log_at_trx_commit"]
    if flush != 1:
        text = f"innodb_flush_log_at_trx_commit is {flush}: a power loss may lose what was saved"
        yield Finding("server", "warning", text, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    if settings["max_allowed_packet"] < 16 << 20:
        text = f"max_allowed_packet is {settings['max_allowed_packet'] >> 20} MB: larger values cannot be saved"
        yield Finding("server", "warning", text, "SET GLOBAL max_allowed_packet = 67108864")
    yield _clock(skew, "the server")
    yield _trip(median(times))


def _redis(url: str) -> Iterator[Finding]:
    import redis

    with redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as client:
        times = [_timed(client.ping) for _ in range(_PROBES)]
        policy = client.info("memory").get("maxmemory_policy", "")  # type: ignore[union-attr]
    yield Finding("hot layer", "ok", f"Redis answers; maxmemory-policy is {policy}")
    yield _trip(median(times), "Redis")


def _password(options: dict[str, Any]) -> Any:
    return options["password"]()


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _trip(took: float, whose: str = "the server") -> Finding:
    text = f"a round trip to {whose} takes {took * 1000:.2f} ms"
    if took > _SLOW_TRIP:
        return Finding("slow", "warning", text, "run the program nearer to it; a save waits for one or two of them")
    return Finding("slow", "ok", text)


_SERVERS = {"postgresql": _postgres, "mysql": _mysql}
