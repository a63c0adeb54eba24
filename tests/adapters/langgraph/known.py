"""What is known of LangGraph's own savers: which checks of our extension they fail, and which they do not offer.

It is compared with what they do, so that the table in the guide stays true when they change.
"""

from __future__ import annotations

# Whether two runs meet is up to the moment, except when nothing is saved before their end.
BY_CHANCE = {
    f"two writers: {savers}, durability {each}" for savers in ("one saver", "two savers") for each in ("sync", "async")
}
_ALL = {
    "two writers: one saver, durability exit",
    "two writers: one saver, durability sync",
    "two writers: one saver, durability async",
    "two writers: two savers, durability exit",
    "two writers: two savers, durability sync",
    "two writers: two savers, durability async",
    "types: tuple",
    "types: set of tuples",
    "types: datetime in a named zone",
    "types: bytearray",
    "types: PurePosixPath",
    "types: complex",
    "types: int over 64 bits",
    "types: str with a lone surrogate",
    "types: deque with a maximum",
    "types: dataclass of odd types",
    "types: enum of a tuple",
    "types: enum as a key",
    "types: which fields of a pydantic model were set",
    "types of LangChain: AIMessage with a tuple inside",
    "types of LangChain: ToolMessage with an object",
    "types of LangChain: Send with a tuple",
}
_SQLITE = _ALL | {
    "threads and loops: writing while listing",
    "hostile thread ids: a UUID",
    "channels: unchanged channels need not be handed over",
    "sizes: a conversation of dicts",
    "sizes: a conversation of messages",
    "hostile filter keys: spaces",
    "hostile filter keys: quotes",
    "hostile filter keys: dots",
    "hostile filter keys: percents",
    "hostile filter keys: non-ASCII",
    "hostile filter keys: injection",
    "hostile filter keys: a JSON path",
    "hostile filter keys: slashes",
    "hostile filter keys: separators",
}
_ON_THE_LOOP = {"threads and loops: sync methods on the thread of the loop"}
_POSTGRES = _ALL | {
    "threads and loops: writing while listing",
    "lists: metadata with a nul or a lone surrogate is taken",
    "hostile thread ids: an int",
    "hostile thread ids: a UUID",
    "channels: unchanged channels need not be handed over",
    "lists: filters by a nested value",
    "a serializer of the user's: nothing readable is stored",
    "a serializer of the user's: without the key nothing is read",
    "sizes: a conversation of dicts",
    "sizes: a conversation of messages",
    "hostile channels: slashes",
    "types: NaN",
    "types: negative nought",
    "types: str with NUL",
    "types: int enum",
}
FAILS: dict[str, set[str]] = {
    "InMemorySaver": _ALL
    | {
        "pending writes: a mixed call keeps what is there",
        "lists: all threads with filter before and limit",
    },
    "SqliteSaver": _SQLITE,
    "AsyncSqliteSaver": _SQLITE | _ON_THE_LOOP,
    "PostgresSaver": _POSTGRES,
    "AsyncPostgresSaver": _POSTGRES | _ON_THE_LOOP,
}
NOT_OFFERED: dict[str, set[str]] = {
    "InMemorySaver": {
        "threads and loops: sync methods on the thread of the loop",
        "threads and loops: writing while listing",
        "threads and loops: many threads at once",
        "threads and loops: one loop after the other",
        "sync methods: a thread is copied",
        "sync methods: a thread is pruned",
        "sync methods: runs are deleted",
        "kill -9: between put and put_writes",
        "kill -9: between the writes of two tasks",
        "kill -9: after put_writes",
        "kill -9: in the middle of many",
        "a serializer of the user's: nothing readable is stored",
        "a serializer of the user's: without the key nothing is read",
        "sizes: a conversation of dicts",
        "sizes: a conversation of messages",
    },
    "SqliteSaver": {
        "threads and loops: one loop after the other",
        "sync methods: put and get",
        "sync methods: get of the latest",
        "sync methods: lists",
        "sync methods: pending writes",
        "sync methods: a thread is deleted",
        "sync methods: delta history",
        "sync methods: a thread is copied",
        "sync methods: a thread is pruned",
        "sync methods: runs are deleted",
    },
    "AsyncSqliteSaver": {
        "sync methods: a thread is copied",
        "sync methods: a thread is pruned",
        "sync methods: runs are deleted",
    },
    "PostgresSaver": {
        "threads and loops: one loop after the other",
        "sync methods: put and get",
        "sync methods: get of the latest",
        "sync methods: lists",
        "sync methods: pending writes",
        "sync methods: a thread is deleted",
        "sync methods: delta history",
        "sync methods: a thread is copied",
        "sync methods: a thread is pruned",
        "sync methods: runs are deleted",
    },
    "AsyncPostgresSaver": {
        "sync methods: a thread is copied",
        "sync methods: runs are deleted",
    },
}
