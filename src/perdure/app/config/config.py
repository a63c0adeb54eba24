"""A configuration: what files, the environment and flags say together, as one value."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from perdure.app.config.dialects import dialect_of
from perdure.app.config.environment import env_path, is_env_file, parse_env_file, read_env_file, read_environment
from perdure.app.config.keys import BY_NAME
from perdure.app.config.places import Page, parse_page, read_bytes
from perdure.app.config.reading import Section
from perdure.app.config.settings import WRONG, Setting, Settings, made, merged, values_of
from perdure.app.config.trust import Trust, check_discovered, needs_trust
from perdure.app.config.trusted_files import TrustedFiles
from perdure.app.opening import check_query, parse
from perdure.app.options import StorageOptions, given, is_taken
from perdure.core.addresses import redact_url
from perdure.core.approvals import Approvals
from perdure.core.errors import InvalidConfigError, PausesExpireWarning
from perdure.core.identity import check_namespace
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.retention_policy import Retention
from perdure.core.triggers import Triggers
from perdure.core.webhooks import Webhook
from perdure.runtime.agents.defaults import AgentDefaults

DEFAULT = str(BY_NAME["store"].default)
NOT_IN_FILES = ("pool", "close_pool")  # objects of a program
_OPTIONS = ("namespace", "migrate", "cache_bytes", "subclasses", *StorageOptions.__annotations__)
_HIDDEN = ("url", "options", "folder")


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `perdure worker` does where its command line does not say."""

    handlers: str | None = None
    concurrency: int = 10
    grace: float = 30.0


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says: where threads are kept, and how runs behave."""

    url: str
    options: dict[str, Any]  # of `open`, for this storage
    triggers: Triggers
    recovery: RecoveryPolicy
    approvals: Approvals
    webhooks: tuple[Webhook, ...]
    retention: Retention | None = None
    agent: AgentDefaults = AgentDefaults()
    worker: WorkerSettings = WorkerSettings()
    prices: Mapping[str, Mapping[str, float]] = {}  # by model: input and output, per million tokens
    folder: str = ""  # where a relative address starts; "" for the working folder

    def __repr__(self) -> str:
        """Without what may be a password."""
        rest = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in _HIDDEN)
        return f"Config(url={redact_url(self.url)!r}, options={sorted(self.options)!r}, {', '.join(rest)})"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file that the caller named, with the environment; raise `InvalidConfigError` naming every mistake."""
        return read_sources(path).config()

    @classmethod
    def load_discovered(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file that nobody named, such as one in the working folder.

        It may say where a local store below its folder is, and options; anything else is an `InvalidConfigError`,
        unless the person trusted this file as it is (`perdure config trust`).
        """
        return read_sources(path, trust=Trust.DISCOVERED).config()

    @classmethod
    def trust(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file, also a `.env`, and record that this person trusts it as it is now: all of it is taken then."""
        data = read_bytes(path)  # once: the bytes that are trusted are those that are read
        if is_env_file(path):
            page, variables = parse_env_file(os.fspath(path), data)
            sources = Sources(page.path)
            sources.add(page, read_env_file(page, variables))
        else:
            sources = read_sources(path, data=data)
        config = sources.config()
        TrustedFiles().add(path, data)
        return config

    @classmethod
    def parse(cls, text: str, path: str = "config.yaml", environment: Mapping[str, str] | None = None) -> Config:
        """The same as `load` for a text; `path` is how messages call it."""
        data = text.encode("utf-8", "surrogatepass")
        return read_sources(path, data=data, environment=environment, env_file=False).config()

    def opened(self, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The address and all options for `open`; those that are given win."""
        mine: dict[str, Any] = {
            "checkpoints": self.triggers, "recovery": self.recovery, "approvals": self.approvals,
            "webhooks": self.webhooks, "retention": self.retention, "agent": self.agent,
        }  # fmt: skip
        return self.address, {**self.options, **mine, **options}

    @property
    def address(self) -> str:
        """The address of the store, where a relative one starts from the folder of the file that names it."""
        return anchored(self.url, self.folder)


class Sources:
    """What was read, from the least to the most important source, and everything that is wrong with it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.settings: Settings = {}
        self._pages: list[Page] = []

    def add(self, page: Page, settings: Settings) -> None:
        """A source that wins over those before it."""
        self._pages.append(page)
        self.settings = merged(self.settings, settings)

    def check(self) -> None:
        """Raise `InvalidConfigError` with everything that is wrong in any source."""
        lines = [line for page in self._pages for line in page.lines()]
        if lines:
            raise InvalidConfigError(self.path, lines)

    def config(self) -> Config:
        """All of it as one value; raise `InvalidConfigError`."""
        made = read_config(self.settings)
        self.check()
        timeout = self.settings.get("recovery.timeout")
        if timeout is not None and made.recovery.timeout is not None:
            _warn(timeout, made.recovery.timeout)
        return made


def read_sources(
    path: str | os.PathLike[str] | None, *, trust: Trust = Trust.NAMED, data: bytes | None = None,
    environment: Mapping[str, str] | None = None, env_file: bool = True, flags: Mapping[str, str] | None = None,
) -> Sources:  # fmt: skip
    """Read a file, the `.env` beside it or in the working folder, the environment and flags, in this order.

    A file that is not named, and each `.env`, is read as far as nothing in it reaches out (`app.config.trust`).
    """
    shown = "the configuration" if path is None else os.fspath(path)
    variables = os.environ if environment is None else environment
    sources = Sources(shown)
    env_page, env, elsewhere, env_found = _env_file(shown if path is not None else "", env_file, trust)
    if path is not None:
        known = {**env, **variables} if trust is Trust.NAMED else variables
        sources.add(*_file(shown, read_bytes(path) if data is None else data, trust, known, elsewhere))
    if env_page is not None:
        sources.add(env_page, env_found)
    sources.add(*read_environment(variables))
    if flags:
        page = Flags()
        sources.add(page, {name: page.setting(name, value) for name, value in flags.items()})
    return sources


class Flags(Page):
    """What the command line says; nothing of it is repeated in a message."""

    def __init__(self) -> None:
        super().__init__("the command line", {})
        self._names: list[str] = []

    def setting(self, name: str, value: Any) -> Setting:
        """The value of a flag."""
        from perdure.app.config.places import Place

        self._names.append(name)
        return Setting(value, self, Place(len(self._names), 0), name)

    def where(self, place: Any) -> str:
        """The flag."""
        return f"flag --{self._names[place.line - 1].replace('_', '-')}"


def _file(
    path: str, data: bytes, trust: Trust, variables: Mapping[str, str], elsewhere: Mapping[str, str]
) -> tuple[Page, Settings]:
    if trust is not Trust.NAMED and TrustedFiles().has(path, data):
        trust = Trust.NAMED
    if trust is Trust.NAMED:
        page, tree = parse_page(path, data, variables, elsewhere=elsewhere)
        return page, dialect_of(path, tree).read(Section(page, tree))
    reason = f"a ${{VARIABLE}} {needs_trust(path)}"
    page, tree = parse_page(path, data, {}, no_variables=reason, lenient=trust is Trust.LOOKED_AT)
    dialect = dialect_of(path, tree)
    return page, check_discovered(page, dialect.read(Section(page, tree)), DEFAULT, trust)


def _env_file(path: str, wanted: bool, trust: Trust) -> tuple[Page | None, dict[str, str], dict[str, str], Settings]:
    """The `.env` of the working folder, else of the folder of the file: its page, variables that count in the file,
    the reason why others do not, and settings."""
    found = (env_path("") or env_path(os.path.dirname(path))) if wanted else None
    if found is None:
        return None, {}, {}, {}
    data = read_bytes(found)
    page, variables = parse_env_file(found, data)
    settings = read_env_file(page, variables)
    if TrustedFiles().has(found, data):
        return page, {name: each.text for name, each in variables.items()}, {}, settings
    why = f"; {found} sets it, but nobody trusted that file: read it, then run `perdure config trust {found}`"
    used = check_discovered(page, settings, "memory://", Trust.DISCOVERED if trust is Trust.NAMED else trust)
    return page, {}, dict.fromkeys(variables, why), used


def anchored(url: str, folder: str) -> str:
    """An address whose relative path starts in a folder."""
    address = parse(url)
    if not folder or address.scheme not in ("sqlite", "file") or os.path.isabs(address.path):
        return url
    path = os.path.abspath(os.path.join(folder, address.path)).replace("%", "%25").replace("?", "%3F")
    question, query = url.partition("?")[1:]
    return f"{address.scheme}://{'/' if address.scheme == 'sqlite' else ''}{path}{question}{query}"


def read_config(settings: Settings) -> Config:
    """A configuration out of settings; what does not fit is a problem of the setting that says it."""
    values = values_of(settings)
    url = _url(settings, values)
    store = settings.get("store")
    return Config(
        url=url, options=_options(settings, values, url), triggers=_triggers(values), recovery=_recovery(values),
        approvals=_approvals(settings, values), webhooks=values.get("webhooks", ()),
        retention=_retention(settings, values), agent=_agent(settings, values), worker=_worker(settings, values),
        prices=values.get("prices", {}), folder="" if store is None else store.page.folder,
    )  # fmt: skip


def _url(settings: Settings, values: Mapping[str, Any]) -> str:
    """An address that can be read, or one that stands for it until everything that is wrong is told."""
    url = values.get("store", DEFAULT)
    if made(lambda: check_query(parse(url)), WRONG, settings.get("store")) is WRONG:
        return DEFAULT
    return url


def _options(settings: Settings, values: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Each is checked with those that it needs beside it, so that the one that is refused is pointed at."""
    known = {name: values[name] for name in _OPTIONS if name in values}
    if "namespace" in known:
        made(lambda: check_namespace(known["namespace"]), "", settings["namespace"])
    scheme, store = parse(url).scheme, settings.get("store")
    for name in [name for name in known if name in StorageOptions.__annotations__]:
        if not is_taken(name, scheme) and store is not None and store.page is not settings[name].page:
            del known[name]  # it was written for the store of its own source, and another one took its place
    beside = {name: known[name] for name in ("hot", "durability") if name in known}
    for name in [name for name in known if name in StorageOptions.__annotations__]:
        one = {**beside, name: known[name]}
        made(lambda one=one: given(one, scheme), {}, settings[name])
    return known


def _part(values: Mapping[str, Any], head: str) -> dict[str, Any]:
    """The values below a key."""
    return {name.removeprefix(head): value for name, value in values.items() if name.startswith(head)}


def _triggers(values: Mapping[str, Any]) -> Triggers:
    told = _part(values, "checkpoints.")
    if "every" in told:
        told["every"] = timedelta(seconds=told["every"])
    return Triggers(**told)


def _recovery(values: Mapping[str, Any]) -> RecoveryPolicy:
    return RecoveryPolicy(**_part(values, "recovery."))


def _approvals(settings: Settings, values: Mapping[str, Any]) -> Approvals:
    told = _part(values, "approvals.")
    enabled = told.pop("enabled", True)
    found = made(lambda: Approvals(**told), Approvals(), settings.get("approvals.trusted_operations"))
    return found if enabled else Approvals()


def _retention(settings: Settings, values: Mapping[str, Any]) -> Retention | None:
    told = _part(values, "retention.")
    at = next((each for name, each in settings.items() if name.startswith("retention.")), None)
    return made(lambda: Retention(**told), None, at) if told else None


def _agent(settings: Settings, values: Mapping[str, Any]) -> AgentDefaults:
    at = next((each for name, each in settings.items() if name.startswith("agent.")), None)
    return made(lambda: AgentDefaults(**_part(values, "agent.")), AgentDefaults(), at)


def _worker(settings: Settings, values: Mapping[str, Any]) -> WorkerSettings:
    told = _part(values, "worker.")
    module = told.get("handlers", "")
    if module.partition(":")[0].endswith(".py"):  # a file beside the configuration, wherever the command is typed
        told["handlers"] = os.path.join(settings["worker.handlers"].page.folder, module)
    return WorkerSettings(**told)


def _warn(setting: Setting, timeout: float) -> None:
    text = (
        f"{setting.page.path}: {setting.name} lets pauses expire after {timeout:g} s; by default they wait for "
        "as long as it takes. Leave it out if that is what you want"
    )
    warnings.warn(text, PausesExpireWarning, stacklevel=5)
