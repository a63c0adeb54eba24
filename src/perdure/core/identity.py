"""Who a thread is, and which ids are accepted."""

from __future__ import annotations

import hashlib
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import msgspec

from perdure.core.errors import InvalidIdError, InvalidInputError, short_repr

MAX_ID = 512
# What namespaces are reserved for. Threads in them that belong to a user are erased with the user (`app.erasure`).
RESULTS, CACHE, SUBGRAPHS, MEMORY = "results", "cache", "subgraphs", "memory"
FACTS = "facts"  # what is remembered of users across threads (`perdure.memory`)
ERASURES = "erasures"  # the tombstones of users who were forgotten; nobody's
_RESERVED = "\x1f"  # begins the namespaces that the library makes for itself; no caller's holds a control character


class AnyUser(Enum):
    """The type of `ANY_USER`, which no request, file or database can hold."""

    ANY_USER = "ANY_USER"

    def __repr__(self) -> str:
        return self.value


ANY_USER = AnyUser.ANY_USER  # trusted code means the only thread of an id, whoever owns it


class FromFile(Enum):
    """The type of `FROM_FILE`, which no request, file or database can hold."""

    FROM_FILE = "FROM_FILE"

    def __repr__(self) -> str:
        return self.value


FROM_FILE = FromFile.FROM_FILE  # an import gives each thread to the owner that the file names


class ThreadKey(msgspec.Struct, frozen=True):
    """The identity of a thread: namespace, user (or "" for none) and id."""

    namespace: str
    user: str
    id: str

    def digest(self) -> str:
        """A safe name for files and indexes: equal keys only have equal digests."""
        return _digest(self)


@lru_cache(maxsize=4096)  # a thread is opened at each of its reads
def same_owner(one: ThreadKey, other: ThreadKey) -> bool:
    """Whether two threads belong to the same user of the same namespace, and so may share what is stored."""
    return (one.namespace, one.user) == (other.namespace, other.user)


def identity_digest(key: ThreadKey, uid: str, first_chain: bytes) -> bytes:
    """What ties a stored thread to its name, its owner and its log, so that another's in its place is damage.

    `first_chain` is a chain digest that the log keeps for ever: that of its first entry, or for a fork that of the
    version it was forked from. Before there is either it is GENESIS.
    """
    parts = (key.namespace.encode(), key.user.encode(), key.id.encode(), uid.encode(), first_chain)
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


@lru_cache(maxsize=4096)
def _digest(key: ThreadKey) -> str:
    parts = (part.encode() for part in (key.namespace, key.user, key.id))
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).hexdigest()


def check_id(value: object, what: str) -> str:
    """Return `value` if it can be an id; raise `InvalidIdError` saying why not."""
    if type(value) is not str:
        raise InvalidIdError(what, f"is a {type(value).__name__}, not a str")
    if not value:
        raise InvalidIdError(what, "is empty")
    if len(value) > MAX_ID:
        raise InvalidIdError(what, f"has {len(value)} characters")
    if not value.isascii() or "\0" in value:
        _check_text(value, what)
    return value


def check_namespace(value: object) -> str:
    """Return `value` if a caller may name it as a namespace, which may be empty; reserved ones cannot be named."""
    if value == "":
        return ""
    checked = check_id(value, "the namespace")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in checked):
        raise InvalidIdError("the namespace", "holds a control character")
    return checked


class Reserved(NamedTuple):
    """What a reserved namespace is for: tools' results, cached values, a thread's subgraphs, memory, tombstones."""

    kind: str
    namespace: str  # the caller's, whose threads it belongs to
    thread: str  # "" where it belongs to all of them


def reserved_namespace(kind: str, namespace: str, thread: str = "") -> str:
    """Where the library keeps something for a namespace of a caller: no caller can name it, and no list shows it."""
    made = f"{_RESERVED}{kind}{_RESERVED}{namespace}{_RESERVED}{thread}"
    return check_id(made, f"the namespace of the {kind} beside it")


def reserved_of(namespace: str) -> Reserved | None:
    """What a namespace is reserved for; None for one of a caller."""
    parts = namespace.split(_RESERVED, 3)  # the id of a thread may hold anything
    return Reserved(*parts[1:]) if len(parts) == 4 and not parts[0] else None


def callers_namespace(namespace: str) -> str:
    """The namespace of a caller that this is, or that it is reserved for."""
    reserved = reserved_of(namespace)
    return namespace if reserved is None else reserved.namespace


def check_user(value: object) -> str:
    """Return `value` if it can be a user id; None and "" are no user."""
    return "" if value is None or value == "" else check_id(value, "the user id")


def check_label(value: object, what: str) -> str | None:
    """Return `value` if it can be a short text such as a name, a status or a note; None stays None."""
    if value is None:
        return None
    if type(value) is not str:
        raise InvalidInputError(f"{what} must be a str, not {short_repr(value)}")
    if "\0" in value:
        raise InvalidInputError(f"{what} holds a NUL character, which databases cannot keep")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidInputError(f"{what} holds a lone surrogate, which databases cannot keep")
    return value


def _check_text(value: str, what: str) -> None:
    if "\0" in value:
        raise InvalidIdError(what, "holds a NUL character")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidIdError(what, "holds a lone surrogate")
