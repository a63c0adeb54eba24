"""`storage.sessions`: where threads are kept."""

from __future__ import annotations

from typing import Any

from perdure.app.config.reading import Section
from perdure.app.opening import parse
from perdure.app.options import StorageOptions, given
from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_namespace

DEFAULT = "sqlite:///perdure.db"
_MEMORY = ("memory", "inmemory")
_FOLDERS = ("sqlite", "file")
_SERVERS = {"postgres": "postgresql", "postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
_BACKENDS = (*_FOLDERS, *_SERVERS, *_MEMORY)
_NUMBERS = ("cache_ttl", "lease_ttl", "pool_timeout", "retry_seconds")
_COUNTS = {
    "max_cached_threads": 1, "max_pending": 1, "pool_min": 0, "pool_max": 1,
    "max_decoded_bytes": 1024, "max_decoded_nodes": 1024,
}  # fmt: skip
_CHOICES = {"durability": ("full", "background"), "user_id_type": ("string", "int", "bigint")}
NOT_IN_FILES = ("pool", "close_pool", "password", "prices", "traceback")  # objects of a program, or given to `open`


def read_sessions(storage: Section) -> tuple[str, dict[str, Any]]:
    """The address of the storage, and what else `open` is given for it."""
    if not storage.has("sessions"):
        return DEFAULT, {}
    if storage.is_text("sessions"):
        url = storage.text("sessions")
        return _checked(storage, "sessions", url), {}
    section = storage.section("sessions")
    url = _url(section)
    options = _options(section)
    section.close()
    _check_options(section, url, options)
    return url, options


def _url(section: Section) -> str:
    url, backend = section.text("url"), section.choice("backend", _BACKENDS)
    path, dsn = section.text("path"), section.text("dsn")
    if section.has("url"):
        for other in ("backend", "path", "dsn"):
            if section.has(other):
                section.page.problem(section.place_of(other), f"url says it all: leave {other} out, or url")
        return _checked(section, "url", url)
    if backend is None:
        if not section.has("backend"):
            section.page.problem(section.place, f"a url or a backend is missing: {', '.join(_BACKENDS)}")
        return DEFAULT
    return _of_backend(section, backend, path, dsn)


def _of_backend(section: Section, backend: str, path: str | None, dsn: str | None) -> str:
    needed = "path" if backend in _FOLDERS else "dsn" if backend in _SERVERS else ""
    for name in ("path", "dsn"):
        if name != needed and section.has(name):
            section.page.problem(section.place_of(name), f"{name} is not for backend {backend}")
    value = path if needed == "path" else dsn
    if needed and not section.has(needed):
        section.page.problem(section.place_of("backend"), f"backend {backend} needs {needed}")
    if not needed or value is None:
        return "memory://"
    if backend in _SERVERS:
        return _server(section, backend, value)
    return _checked(section, "path", _PATHS[backend](value))


def _server(section: Section, backend: str, dsn: str) -> str:
    scheme, url = _SERVERS[backend], _checked(section, "dsn", dsn)
    if url is dsn and parse(url).scheme != scheme:
        section.page.problem(section.place_of("dsn"), f"backend {backend} needs an address {scheme}://…")
    return url


def _sqlite(path: str) -> str:
    return f"sqlite:///{_quoted(path)}"


def _file(path: str) -> str:
    return f"file://{_quoted(path)}" if path.startswith("/") else f"file:{_quoted(path)}"


_PATHS = {"sqlite": _sqlite, "file": _file}


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3F")


def _checked(section: Section, name: str, url: str | None) -> str:
    """An address that can be read, or one that stands for it until everything that is wrong is told."""
    if url is None:
        return DEFAULT
    try:
        parse(url)
    except InvalidInputError as exc:
        section.page.problem(section.place_of(name), str(exc))
        return DEFAULT
    return url


def _options(section: Section) -> dict[str, Any]:
    found: dict[str, Any] = {name: section.text(name) for name in ("hot", "schema", "namespace")}
    found["migrate"] = section.choice("migrate", ("auto", "check"))
    found |= {name: section.seconds(name, None, zero=True) for name in _NUMBERS}
    found |= {name: section.count(name, None, least) for name, least in _COUNTS.items()}
    found |= {name: section.choice(name, choices) for name, choices in _CHOICES.items()}
    found["file_mode"] = section.file_mode("file_mode")
    found["prepare"] = section.flag("prepare", None)  # type: ignore[arg-type]
    known = {name: value for name, value in found.items() if value is not None}
    section.made(lambda: check_namespace(known.get("namespace", "")), "", section.place_of("namespace"))
    return known | _call_timeout(section)


def _call_timeout(section: Section) -> dict[str, Any]:
    """The one number that may be nothing: a call is never given up then."""
    if section.is_null("call_timeout"):
        return {"call_timeout": None}
    seconds = section.seconds("call_timeout", None)
    return {} if seconds is None else {"call_timeout": seconds}


def _check_options(section: Section, url: str, options: dict[str, Any]) -> None:
    """Each with those that it needs beside it, so that the one that is refused is pointed at."""
    scheme = parse(url).scheme
    known = {name: value for name, value in options.items() if name in StorageOptions.__annotations__}
    beside = {name: known[name] for name in ("hot", "durability") if name in known}
    for name, value in known.items():
        section.made(lambda name=name, value=value: given({**beside, name: value}, scheme), {}, section.place_of(name))
