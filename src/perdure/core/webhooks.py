"""Webhooks: where a notification goes to, and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, cast

import msgspec

from perdure.core.errors import InvalidWebhookError
from perdure.core.reminders import OPENED
from perdure.core.signatures import keys_of
from perdure.core.templates import filled, json_of, spoken, well_formed

LONGEST_ARGS = 256 << 10  # bytes of JSON; larger ones are left out: many receivers refuse a body over 1 MB
LONGEST_VALUE = 10_000  # characters of a value in a template
_LONGEST_URL = 8192
_DEEPEST = 32  # levels of a template
_URL = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#@\s\\\x00-\x1f\x7f]*)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^/?#@:\[\]\s\\\x00-\x1f\x7f]+)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<rest>[/?#][^\s\\\x00-\x1f\x7f]*)?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_OURS = frozenset({
    "connection", "content-length", "content-type", "host", "transfer-encoding", "webhook-id", "webhook-signature",
    "webhook-timestamp",
})  # fmt: skip

Template = str | Mapping[str, Any] | Sequence[Any]


class Webhook(msgspec.Struct, frozen=True):
    """A receiver of notifications, and how often it is tried.

    `secret` signs (a tuple while one is replaced by another: all of them sign). `template` takes the place of the
    JSON body. With `link` a notice has an address with which its receiver decides. Raises `InvalidWebhookError` for
    what cannot be.
    """

    url: str
    secret: str | bytes | tuple[str | bytes, ...] | None = None
    headers: Mapping[str, str] = {}
    template: Template | None = None
    attempts: int = 3
    first_wait: float = 1.0  # seconds after the first failure; then twice as many each time
    longest_wait: float = 30.0
    timeout: float = 10.0  # seconds for a whole attempt, from the look-up of the host to the answer
    allow_private: bool = True  # receivers are named by the operator; False where users name them
    link: str | None = None  # an address of yours with {token} in it: what a person opens to decide

    def __post_init__(self) -> None:
        for reason in _faults(self):
            raise InvalidWebhookError(_shown(self.url), reason)
        # Whoever gave these may change them later; a notification that waits for its retry must not change.
        msgspec.structs.force_setattr(self, "headers", dict(self.headers))
        if self.template is not None:
            msgspec.structs.force_setattr(self, "template", msgspec.json.decode(msgspec.json.encode(self.template)))

    def __repr__(self) -> str:
        """Nothing that may be a secret: paths are one in the addresses of chat services, and headers may hold one."""
        return f"Webhook({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        masked = [("url", self.place), ("secret", None if self.secret is None else "…"), ("headers", [*self.headers])]
        shown = ("attempts", "first_wait", "longest_wait", "timeout", "allow_private")
        return masked + [(name, getattr(self, name)) for name in shown]

    @property
    def place(self) -> str:
        """The address for people, without anything that may be a secret."""
        return _shown(self.url)

    @property
    def host(self) -> str:
        """The name or the address of the host."""
        return _URL.fullmatch(self.url)["host"].strip("[]")  # type: ignore[index]  # checked when it was made


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What a notification tells: somebody is asked something."""

    pause: str
    name: str
    ask: str
    args: Any = None
    thread: str
    user: Any = None
    run: str
    version: int  # of the question; a decision may name it
    deadline: datetime | None = None
    who: str | Sequence[str] | None = None  # may answer
    link: str | None = None
    at: datetime
    event: str = OPENED  # or "pause.reminded", "pause.escalated"
    nth: int = 0  # of reminders

    @property
    def id(self) -> str:
        """The id of the delivery: the same for every attempt of every process, so that a receiver can tell."""
        return delivery_id(self.pause, f"{self.event}.{self.nth}" if self.nth else self.event)


class Body(msgspec.Struct, frozen=True):
    """What is sent."""

    content: bytes
    content_type: str


def delivery_id(pause: str, event: str = OPENED) -> str:
    """The id under which a pause is told of."""
    return "ntf_" + sha256(f"perdure.delivery\0{event}\0{pause}".encode("utf-8", "replace")).hexdigest()[:32]


def body_of(notice: Notice, template: Template | None = None) -> Body:
    """The body of a notification: our JSON object, or the template with the notice's values.

    A text that is JSON is taken as a template of JSON; any other is sent as plain text. Which of the two it is never
    depends on the values: a question could otherwise write fields of its own.
    """
    if template is None:
        return _json(_fields(notice))
    values = _values(notice)
    tree = _parsed(template) if isinstance(template, str) else template
    if isinstance(tree, str):
        return Body(well_formed(filled(tree, values, longest=LONGEST_VALUE)).encode(), "text/plain; charset=utf-8")
    return _json(_rendered(tree, values))


def _json(tree: Any) -> Body:
    return Body(msgspec.json.encode(tree), "application/json")


def _parsed(template: str) -> Any:
    """The tree that a text is; the text itself where it is none."""
    try:
        tree = msgspec.json.decode(template)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return template
    return cast("Any", tree) if isinstance(tree, dict | list) else template


def _rendered(tree: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(tree, str):
        return well_formed(filled(tree, values, longest=LONGEST_VALUE))
    if isinstance(tree, Mapping):
        return {name: _rendered(part, values) for name, part in cast("Mapping[str, Any]", tree).items()}
    if isinstance(tree, list | tuple):
        return [_rendered(part, values) for part in cast("list[Any]", tree)]
    return tree


def _fields(notice: Notice) -> dict[str, Any]:
    args = json_of(notice.args)
    fields = {"event": notice.event, "id": notice.id} | _told(notice) | {"args": msgspec.Raw(args)}
    return fields if len(args) <= LONGEST_ARGS else fields | {"args": None, "args_omitted": len(args)}


def _told(notice: Notice) -> dict[str, Any]:
    """The fields as JSON has them, in their order; `args` only keeps its place."""
    names = ("pause", "name", "ask", "args", "thread", "user", "run", "version", "deadline", "who", "link", "at")
    return {name: None if name == "args" else _plain(getattr(notice, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in cast("list[Any]", value)]
    if isinstance(value, datetime):
        return msgspec.to_builtins(value)
    return value if value is None or isinstance(value, int) else spoken(value)


def _values(notice: Notice) -> dict[str, Any]:
    """What a template may name; what is not there is empty, since people read it."""
    told = {name: "" if value is None else value for name, value in _told(notice).items()}
    who = ", ".join(map(str, told["who"])) if isinstance(told["who"], list) else told["who"]
    return told | {"event": notice.event, "id": notice.id, "args": notice.args, "who": who}


def _shown(url: object) -> str:
    found = _URL.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        return "…"
    port = f":{found['port']}" if found["port"] else ""
    return f"{found['scheme'].lower()}://{found['host']}{port}" + ("/…" if (found["rest"] or "/") != "/" else "")


def _faults(hook: Webhook) -> Iterator[str]:
    """What is wrong with a webhook; nothing of it is shown that may be a secret."""
    yield from _url_faults(hook.url)
    yield from _header_faults(hook.headers)
    yield from _secret_faults(hook.secret)
    yield from _template_faults(hook.template)
    if hook.link is not None and "{token}" not in str(hook.link):
        yield "link must be an address with {token} in it"
    if type(hook.attempts) is not int or hook.attempts < 1:
        yield f"attempts must be an int from 1 on, not {hook.attempts!r}"
    if type(hook.allow_private) is not bool:
        yield f"allow_private must be True or False, not {hook.allow_private!r}"
    for name, least in (("first_wait", 0.0), ("longest_wait", 0.0), ("timeout", 0.001)):
        seconds = getattr(hook, name)
        if type(seconds) not in (int, float) or not least <= seconds < 1e6:
            yield f"{name} must be a number of seconds from {least:g} on, not {seconds!r}"


def _url_faults(url: Any) -> Iterator[str]:
    found = _URL.fullmatch(url) if isinstance(url, str) and len(url) <= _LONGEST_URL else None
    if found is None:
        yield "its address cannot be read; use https://host/path, and quote what is unusual in a password as %…"
    elif found["port"] and not 0 < int(found["port"]) < 65536:
        yield f"port {found['port']} is no port"


def _header_faults(headers: Any) -> Iterator[str]:
    if not isinstance(headers, Mapping):
        yield "headers must be a mapping of texts"
        return
    for name, value in cast("Mapping[Any, Any]", headers).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{name!r} is no name of a header"
        elif name.lower() in _OURS:
            yield f"header {name!r} is set by perdure; leave it out"
        elif not isinstance(value, str) or not _VALUE.fullmatch(value):
            yield f"the value of header {name!r} must be printable ASCII on one line"


def _secret_faults(secret: Any) -> Iterator[str]:
    try:
        keys_of(secret)
    except ValueError as exc:
        yield str(exc)


def _template_faults(template: Any) -> Iterator[str]:
    if template is None:
        return
    if not isinstance(template, str | Mapping | list | tuple):
        yield f"template must be a text, a mapping or a list, not {type(template).__name__}"
        return
    try:
        tree = msgspec.json.decode(msgspec.json.encode(template))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as exc:
        yield f"its template cannot be written as JSON ({exc})"
        return
    if _is_deeper(_parsed(tree) if isinstance(tree, str) else tree, _DEEPEST):
        yield f"its template is nested more than {_DEEPEST} levels deep"


def _is_deeper(tree: Any, than: int) -> bool:
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return than < 0 or any(_is_deeper(part, than - 1) for part in cast("list[Any]", parts))
