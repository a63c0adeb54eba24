"""The words of Hector's `config.yaml`: the same settings under other names."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.app.config.keys import BY_NAME, Key
from perdure.app.config.places import Place
from perdure.app.config.reading import Section
from perdure.app.config.settings import WRONG, Setting, Settings, read_keys
from perdure.app.opening import parse
from perdure.core.errors import InvalidInputError

HEADS = ("storage", "human_in_the_loop", "notifications")
_SESSIONS = (
    "hot", "schema", "namespace", "migrate", "cache_ttl", "lease_ttl", "pool_timeout", "retry_seconds",
    "max_cached_threads", "max_pending", "pool_min", "pool_max", "max_decoded_bytes", "max_decoded_nodes",
    "durability", "user_id_type", "file_mode", "prepare", "call_timeout", "password",
)  # fmt: skip
_CHECKPOINT = ("every", "enabled", "strategy", "interval", "after_tools", "before_llm")
_RECOVERY = ("auto_resume", "auto_resume_hitl", "timeout")
_LOOP = {
    "enabled": "approvals.enabled",
    "require_approval_for": "approvals.require_approval_for",
    "trusted_operations": "approvals.trusted_operations",
    "approval_timeout_seconds": "approvals.timeout",
    "auto_reject_on_timeout": "approvals.auto_reject",
}
# The names of Hector's file, dotted, each with the key of perdure.yaml that it is.
NAMES: Mapping[str, str] = {
    **{f"storage.sessions.{name}": name for name in _SESSIONS},
    **{f"storage.checkpoint.{name}": f"checkpoints.{name}" for name in _CHECKPOINT},
    **{f"storage.checkpoint.recovery.{name}": f"recovery.{name}" for name in _RECOVERY},
    **{f"human_in_the_loop.{name}": key for name, key in _LOOP.items()},
    "notifications": "webhooks",
}
_MEMORY = ("memory", "inmemory")
_FOLDERS = ("sqlite", "file")
_SERVERS = {"postgres": "postgresql", "postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
_BACKENDS = (*_FOLDERS, *_SERVERS, *_MEMORY)
ADDRESS = ("url", "dsn", "path", "backend")


def read_hector(root: Section) -> Settings:
    """All settings of a file."""
    storage = root.section("storage", leaf=False)
    found = _sessions(storage)
    found |= read_keys(storage, _keys("storage.checkpoint.", "checkpoint."))
    storage.close()
    found |= read_keys(root, _keys("human_in_the_loop", "human_in_the_loop"))
    found |= read_keys(root, _keys("notifications", "notifications"))
    root.close()
    return found


def _keys(prefix: str, instead: str) -> dict[str, Key]:
    return {instead + name.removeprefix(prefix): BY_NAME[key] for name, key in NAMES.items() if name.startswith(prefix)}


def _sessions(storage: Section) -> Settings:
    if not storage.has("sessions"):
        return {}
    if storage.is_text("sessions"):
        url = storage.text("sessions", WRONG)
        return {"store": Setting(url, storage.page, storage.place_of("sessions"), "storage.sessions")}
    section = storage.section("sessions")
    url = _url(section)
    found = read_keys(section, _keys("storage.sessions.", ""))
    section.close()
    place = next((section.place_of(each) for each in ADDRESS if section.lists(each)), section.place)
    return found | {"store": Setting(url, section.page, place, "storage.sessions")}


def _url(section: Section) -> object:
    url, backend = section.text("url"), section.choice("backend", _BACKENDS)
    path, dsn = section.text("path"), section.text("dsn")
    if section.has("url"):
        for other in ("backend", "path", "dsn"):
            if section.has(other):
                section.page.problem(section.place_of(other), f"url says it all: leave {other} out, or url")
        return WRONG if url is None else url
    if backend is None:
        if not section.has("backend"):
            section.page.problem(section.place, f"a url or a backend is missing: {', '.join(_BACKENDS)}")
        return WRONG
    return _of_backend(section, backend, path, dsn)


def _of_backend(section: Section, backend: str, path: str | None, dsn: str | None) -> object:
    needed = needed_by(backend)
    for name in ("path", "dsn"):
        if name != needed and section.has(name):
            section.page.problem(section.place_of(name), f"{name} is not for backend {backend}")
    value = path if needed == "path" else dsn
    if needed and not section.has(needed):
        section.page.problem(section.place_of("backend"), f"backend {backend} needs {needed}")
    if not needed:
        return "memory://"
    if value is None:
        return WRONG
    if backend in _SERVERS:
        return _server(section, section.place_of("dsn"), backend, value)
    return address_of(backend, value)


def needed_by(backend: str) -> str:
    """The key that a backend needs beside it."""
    return "path" if backend in _FOLDERS else "dsn" if backend in _SERVERS else ""


def _server(section: Section, place: Place, backend: str, dsn: str) -> object:
    try:
        scheme = parse(dsn).scheme
    except InvalidInputError:
        return dsn  # told where every address is checked
    if scheme != _SERVERS[backend]:
        section.page.problem(place, f"backend {backend} needs an address {_SERVERS[backend]}://…")
        return WRONG
    return dsn


def address_of(backend: str, path: str) -> str:
    """The address of a file or a folder."""
    quoted = path.replace("%", "%25").replace("?", "%3F")
    if backend == "sqlite":
        return f"sqlite:///{quoted}"
    return f"file://{quoted}" if path.startswith("/") else f"file:{quoted}"
