"""The names of our keys in Redis: readable for people, apart for each storage.

    perdure:9f2c61d0a4b7:tail::alice:ticket-42     the newest entries of a thread's log
    perdure:9f2c61d0a4b7:base::alice:ticket-42     its newest snapshot, or that it has none
    perdure:9f2c61d0a4b7:head::alice:ticket-42     where its log stood when the storage was asked last
    perdure:9f2c61d0a4b7:gone::alice:ticket-42     a tombstone: nothing from before it counts
    perdure:9f2c61d0a4b7:used                      when each thread was used last

The second part tells storages that share one Redis from each other. Namespace and user come before the id, which is
last and written as it is; in the two, `:` is `%3A` and `%` is `%25`.
"""

from __future__ import annotations

from perdure.core.identity import ThreadKey


class Keys:
    """The keys of one storage."""

    def __init__(self, place: bytes) -> None:
        self._prefix = f"perdure:{place.hex()}:".encode()
        self.used = self._prefix + b"used"

    def tail(self, member: bytes) -> bytes:
        """The newest entries of a thread."""
        return self._prefix + b"tail:" + member

    def base(self, member: bytes) -> bytes:
        """What folding them starts from."""
        return self._prefix + b"base:" + member

    def head(self, member: bytes) -> bytes:
        """Where its log stood, as the storage said."""
        return self._prefix + b"head:" + member

    def gone(self, member: bytes) -> bytes:
        """The tombstone of what was deleted of it, or left behind."""
        return self._prefix + b"gone:" + member

    def content(self, member: bytes) -> tuple[bytes, bytes, bytes]:
        """All keys of a thread that may be dropped at any time; a tombstone stays."""
        return self.base(member), self.tail(member), self.head(member)


def member_of(key: ThreadKey) -> bytes:
    """A thread's name inside the keys: different threads never share one."""
    return users_part(key) + key.id.encode()


def users_part(key: ThreadKey) -> bytes:
    """What the names of all threads of its user begin with."""
    return f"{_quoted(key.namespace)}:{_quoted(key.user)}:".encode()


def _quoted(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A")
