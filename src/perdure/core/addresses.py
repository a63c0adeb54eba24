"""Addresses of storages as people may see them: nothing of them that may be a password.

Only what certainly is no password is repeated. An address that does not have the usual form (a password with `@`, `/`,
`?` or `#` that was not percent-encoded, a port that is no number, a missing `@`) is cut down to its scheme: nobody can
tell where its password ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_HIDDEN = "…"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}):")
_LOCAL = frozenset({"file", "memory", "sqlite"})
_SERVER = re.compile(
    r"""
    (?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://
    (?:(?P<user>[^/?#\s]*)@)?
    (?P<host>(?:[A-Za-z0-9._,-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?)
    (?P<path>/[^?#@:\s]*)?
    (?:\?(?P<query>[^#@\s]*))?
    """,
    re.VERBOSE,
)
_USER = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._/,+-]*")
# Parameters whose value a person needs to see, and of which none can be a secret.
_SHOWN = frozenset({
    "application_name", "busy_timeout", "connect_timeout", "db", "dbname", "host", "keepalives", "keepalives_count",
    "keepalives_idle", "keepalives_interval", "port", "protocol", "ssl_ca", "ssl_cert", "ssl_mode", "sslcert",
    "sslmode", "sslrootcert", "synchronous", "target_session_attrs", "tcp_user_timeout", "unix_socket", "user",
})  # fmt: skip
_NAMED = frozenset({"passfile", "passphrase", "password", "pwd", "ssl_key", "sslkey", "sslpassword", "token"})
_PASSWORD = re.compile(r"(?i)(pass|pwd|secret|token)\w*\s*=|:[^@]*@")


def redact_url(url: str) -> str:
    """The address with `…` in the place of user and password and of every parameter that may be a secret.

    A user without a password stays, so that the address can be used as it is.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return _HIDDEN if may_hold_password(url) else url
    if scheme[1].lower() in _LOCAL:
        return _redacted_path(url, scheme[0])
    parts = _SERVER.fullmatch(url)
    if parts is None:
        return scheme[0] + ("//" if url.startswith("//", scheme.end()) else "") + _HIDDEN
    user = parts["user"]
    shown = "" if user is None else f"{user if _is_user(parts) else _HIDDEN}@"
    return f"{parts['scheme']}://{shown}{parts['host']}{parts['path'] or ''}{_redacted_query(parts['query'])}"


def display_url(url: str) -> str:
    """Where a server is: scheme, host and database."""
    parts = _SERVER.fullmatch(url)
    if parts is None:
        return redact_url(url)
    return f"{parts['scheme']}://{parts['host']}{parts['path'] or ''}"


def redact_words(text: str, words: Iterable[str]) -> str:
    """A text about words that were typed, without the passwords of those that are addresses."""
    typed = {part for word in words for part in (word, word.partition("=")[2]) if may_hold_password(part)}
    for part in sorted(typed, key=len, reverse=True):
        for form in (part, repr(part)[1:-1]):
            text = text.replace(form, redact_url(part))
    return text


def _is_user(parts: re.Match[str]) -> bool:
    # In an address of Redis a name alone is often meant as the password.
    return not parts["scheme"].lower().startswith("redis") and _USER.fullmatch(parts["user"]) is not None


def may_hold_password(text: str) -> bool:
    """Whether a text looks like an address, or like settings of a connection."""
    return "://" in text or _PASSWORD.search(text) is not None


def _redacted_path(url: str, scheme: str) -> str:
    """An address of files: all of it but what somebody may have taken it to have, a user and secret parameters."""
    body, question, query = url.partition("?")
    rest = body[len(scheme) :]
    if "@" in rest and rest.startswith("//") and not rest.startswith("///"):
        return f"{scheme}//{_HIDDEN}"
    return body + (_redacted_query(query) if question else "")


def _redacted_query(query: str | None) -> str:
    return "" if not query else "?" + "&".join(map(_redacted_parameter, query.split("&")))


def _redacted_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if name in _SHOWN and _PLAIN_VALUE.fullmatch(value):
        return parameter
    return f"{name}={_HIDDEN}" if equals and name in _SHOWN | _NAMED else _HIDDEN
