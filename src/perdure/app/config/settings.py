"""Settings: values by key, each with where it was written. Sources are read one by one and merged by precedence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from perdure.app.config.keys import PRICE_KEYS, RULE_KEYS, WEBHOOK_KEYS, Key
from perdure.app.config.places import Page, Place
from perdure.app.config.reading import Section
from perdure.app.config.secret_files import read_secret, secret_text
from perdure.core.errors import InvalidInputError
from perdure.core.retention_policy import Rule
from perdure.core.webhooks import Webhook

WRONG: Any = object()  # stands for a value that was refused, so that the key still counts as written


class Setting(NamedTuple):
    """A value, and where it was written."""

    value: Any
    page: Page
    place: Place
    name: str  # as its source calls it

    @property
    def origin(self) -> str:
        """For people: `perdure.yaml:3:5`, or the name of a variable."""
        return self.page.where(self.place)

    def problem(self, text: str) -> None:
        """This value is a mistake."""
        self.page.problem(self.place, text)


Settings = dict[str, Setting]


def read_keys(section: Section, keys: Mapping[str, Key]) -> Settings:
    """The keys of a section that are written there. `keys` are those it may have, by their dotted names in it."""
    found: Settings = {}
    for head, inside in _by_head(keys).items():
        if "" in inside:
            _read_leaf(section, head, inside[""], found)
        else:
            inner = section.section(head, leaf=False)
            found |= read_keys(inner, inside)
            inner.close()
    return found


def _by_head(keys: Mapping[str, Key]) -> dict[str, dict[str, Key]]:
    heads: dict[str, dict[str, Key]] = {}
    for name, key in keys.items():
        head, _, rest = name.partition(".")
        heads.setdefault(head, {})[rest] = key
    return heads


def _read_leaf(section: Section, name: str, key: Key, found: Settings) -> None:
    place = section.place_of(name)
    written = section.has(name) if key.kind not in ("webhooks", "texts") else section.lists(name)
    value = READERS[key.kind](section, name, key)
    if written:
        found[key.name] = Setting(value, section.page, place, section.dotted(name))


def _nullable(read: Callable[[Section, str, Key], Any]) -> Callable[[Section, str, Key], Any]:
    def reader(section: Section, name: str, key: Key) -> Any:
        return None if key.null and section.is_null(name) else read(section, name, key)

    return reader


def _secret(section: Section, name: str, key: Key) -> Any:
    value = section.text(name, WRONG)
    return value if value is WRONG else secret_text(section.page, section.place_of(name), value, WRONG)


def _password(section: Section, name: str, key: Key) -> Any:
    """A function, because it is asked for every connection: a file that changes meanwhile is read again."""
    value, folder = section.text(name, WRONG), section.page.folder
    if value is WRONG or secret_text(section.page, section.place_of(name), value, WRONG) is WRONG:
        return WRONG
    return (lambda: read_secret(value, folder)) if value.startswith("file:") else (lambda: value)


def _pairs(section: Section, name: str, key: Key) -> Any:
    place = section.place_of(name)
    return {each: secret_text(section.page, place, text, "") for each, text in section.pairs(name).items()}


def _mode(section: Section, name: str, key: Key) -> Any:
    value = section.file_mode(name)
    return WRONG if value is None else value


def _webhooks(section: Section, name: str, key: Key) -> Any:
    found = [_webhook(each) for each in section.sections(name)]
    return tuple(each for each in found if each is not None)


def _webhook(section: Section) -> Webhook | None:
    told = read_keys(section, {key.name: key for key in WEBHOOK_KEYS})
    section.close()
    if not section.has("url"):
        section.page.problem(section.place, "a url is missing: every notification needs one")
    values = {name: each.value for name, each in told.items() if each.value is not WRONG}
    first, longest = values.pop("retry.initial", 1.0), values.pop("retry.max", 30.0)
    if longest < first:
        at = section.place_of("retry")
        section.page.problem(at, f"max is {longest:g}, shorter than initial, which is {first:g}")
    if "url" not in values:
        return None
    retry = {"attempts": values.pop("retry.attempts", 3), "first_wait": first, "longest_wait": longest}
    return section.made(lambda: Webhook(**values, **retry), None, section.place_of("url"))


def _prices(section: Section, name: str, key: Key) -> Any:
    free = {key.name: float(key.default) for key in PRICE_KEYS}
    return {model: {**free, **_tables(inner, PRICE_KEYS)} for model, inner in section.named_sections(name)}


def _rules(section: Section, name: str, key: Key) -> Any:
    rules = {each: (inner, _tables(inner, RULE_KEYS)) for each, inner in section.named_sections(name)}
    return {each: inner.made(lambda told=told: Rule(**told), Rule()) for each, (inner, told) in rules.items()}


def _tables(section: Section, keys: Iterable[Key]) -> dict[str, Any]:
    told = read_keys(section, {key.name: key for key in keys})
    section.close()
    return {name: each.value for name, each in told.items() if each.value is not WRONG}


READERS: Mapping[str, Callable[[Section, str, Key], Any]] = {
    "text": lambda section, name, key: section.text(name, WRONG),
    "secret": _secret,
    "password": _password,
    "number": lambda section, name, key: section.number(name, WRONG),
    "flag": lambda section, name, key: section.flag(name, WRONG),
    "count": lambda section, name, key: section.count(name, WRONG, key.least),
    "seconds": _nullable(lambda section, name, key: section.seconds(name, WRONG, zero=key.zero)),
    "mode": _mode,
    "choice": lambda section, name, key: section.choice(name, key.choices, WRONG),
    "texts": lambda section, name, key: section.texts(name),
    "pairs": _pairs,
    "webhooks": _webhooks,
    "prices": _prices,
    "rules": _rules,
    "settings": lambda section, name, key: section.plain(name),
}


def merged(*sources: Settings) -> Settings:
    """Later sources win, key by key."""
    found: Settings = {}
    for each in sources:
        found |= each
    return found


def values_of(settings: Settings) -> dict[str, Any]:
    """The values by key, without those that were refused."""
    return {name: each.value for name, each in settings.items() if each.value is not WRONG}


def made(make: Callable[[], Any], instead: Any, at: Setting | None) -> Any:
    """What `make` gives; where it refuses its values, that is a problem of a setting."""
    try:
        return make()
    except InvalidInputError as exc:
        if at is None:
            raise
        at.problem(str(exc))
        return instead
