"""Every key of `perdure.yaml`: its type, its default, what it does, and whether a file that nobody named may have it.

The reader, the environment, `perdure config show`, the JSON Schema and the guide are all made from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from perdure.core.triggers import STRATEGIES

Kind = Literal[
    "text", "secret", "password", "flag", "count", "number", "seconds", "mode", "choice", "texts", "pairs", "settings",
    "webhooks", "prices", "rules",
]  # fmt: skip


class Key(NamedTuple):
    """A key of a configuration."""

    name: str  # dotted, as in perdure.yaml
    kind: Kind
    about: str
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int = 1  # of a count
    zero: bool = False  # whether seconds may be 0
    null: bool = False  # whether nothing is a value of its own
    harmless: bool = False  # whether it is taken from a file that nobody named


KEYS: tuple[Key, ...] = (
    Key("store", "text", "the address of the store, as for `Perdure.open`", "sqlite:///perdure.db", harmless=True),
    Key("password", "password", "servers: the password, instead of one in the address"),
    Key("namespace", "text", "keeps tenants apart", "", harmless=True),
    Key("migrate", "choice", "`check` refuses to change an old layout", "auto", ("auto", "check"), harmless=True),
    Key("schema", "text", "PostgreSQL: the schema of the tables", "perdure"),
    Key("hot", "secret", "`redis://…` in front of the storage"),
    Key("cache_ttl", "seconds", "hot: seconds that a thread nobody uses stays in Redis", 86400, zero=True),
    Key("max_cached_threads", "count", "hot: the most threads in Redis", 1000),
    Key("durability", "choice", "`background`: answered before it is durable", "full", ("full", "background"),
        harmless=True),
    Key("max_pending", "count", "background: the most writes that wait", 1000, harmless=True),
    Key("lease_ttl", "seconds", "seconds that a run may go without a sign of life before others take over", 30,
        zero=True, harmless=True),
    Key("user_id_type", "choice", "the type of user ids", "string", ("string", "int", "bigint"), harmless=True),
    Key("file_mode", "mode", "files: the mode of those that are made, in octal digits", 0o600),
    Key("pool_min", "count", "PostgreSQL: connections kept open", 1, least=0),
    Key("pool_max", "count", "servers: the most connections", 8),
    Key("pool_timeout", "seconds", "servers: seconds to wait for a free connection", 30, zero=True),
    Key("prepare", "flag", "PostgreSQL: `false` for a pooler that does not know prepared statements", True),
    Key("retry_seconds", "seconds", "servers: how long a call waits for a server that went away", 10, zero=True),
    Key("call_timeout", "seconds", "servers: seconds until a call without an answer is given up; `null`: never", 30,
        null=True),
    Key("max_decoded_bytes", "count", "how many bytes one value may have once it is unpacked", 268435456, least=1024),
    Key("max_decoded_nodes", "count", "how many values and keys one value may hold", 2000000, least=1024),
    Key("cache_bytes", "count", "bytes of memory for the newest states", 67108864, least=0),
    Key("subclasses", "choice", "`plain`: an unregistered subclass of a plain type loses its class",
        "refuse", ("refuse", "plain")),
    Key("traceback", "flag", "`false`: failures are recorded without their traceback", True),
    Key("checkpoints.every", "seconds", "at the next turn or tool when so much time has passed", harmless=True),
    Key("checkpoints.enabled", "flag", "`false`: runs save no points by themselves", True, harmless=True),
    Key("checkpoints.strategy", "choice", "`event`, `interval` or `hybrid`", None, STRATEGIES, harmless=True),
    Key("checkpoints.interval", "count", "`interval`, `hybrid`: after how many turns", 5, harmless=True),
    Key("checkpoints.after_tools", "flag", "right after the result of a tool", False, harmless=True),
    Key("checkpoints.before_llm", "flag", "right before a model is asked, with what it is asked", False,
        harmless=True),
    Key("recovery.auto_resume", "flag", "runs that were cut off go on by themselves", True, harmless=True),
    Key("recovery.auto_resume_hitl", "flag", "so do those whose question was answered meanwhile", False,
        harmless=True),
    Key("recovery.timeout", "seconds", "seconds after which a pause that nobody decided expires", harmless=True),
    Key("approvals.enabled", "flag", "`false`: the other keys of the block have no effect", True, harmless=True),
    Key("approvals.require_approval_for", "texts", "names of tools that a person is asked about", (), harmless=True),
    Key("approvals.trusted_operations", "texts", "names of tools that nobody is asked about", ()),
    Key("approvals.timeout", "seconds", "how long such a question waits", harmless=True),
    Key("approvals.auto_reject", "flag", "it is denied then; `false`: it waits on", True, harmless=True),
    Key("webhooks", "webhooks", "who is told of questions: a list of receivers", ()),
    Key("retention.last", "count", "keep the newest N points of each agent and thread", least=0),
    Key("retention.days", "number", "keep points at most that many days old"),
    Key("retention.bytes", "count", "keep the newest points as far as they cost no more than this", least=0),
    Key("retention.per", "choice", "the group in which `last` and `bytes` count", "agent",
        ("agent", "thread", "user", "store")),
    Key("retention.until", "choice", "keep points until their operation completed, or until somebody cleared them",
        None, ("completed", "cleared")),
    Key("retention.messages", "choice", "`drop`: messages go with the points that hold them", "keep",
        ("keep", "drop")),
    Key("retention.kinds", "rules", "a rule for each kind of point", ()),
    Key("retention.tags", "rules", "a rule for each tag", ()),
    Key("agent.model", "text", "the model of agents that are given none, at a server of OpenAI's chat completions"),
    Key("agent.base_url", "text", "the address of that server", "https://api.openai.com/v1"),
    Key("agent.api_key", "secret", "its key, instead of `OPENAI_API_KEY`"),
    Key("agent.timeout", "seconds", "seconds for one answer of it", 120),
    Key("agent.attempts", "count", "how often a request that failed is made", 4),
    Key("agent.instructions", "text", "instructions of agents that are given none"),
    Key("agent.max_turns", "count", "turns of agents that are given no limit", 20),
    Key("agent.settings", "settings", "settings of every request, such as `temperature`", ()),
    Key("worker.handlers", "text", "the module or file.py that `perdure worker` imports"),
    Key("worker.concurrency", "count", "how many runs a worker has at once", 10),
    Key("worker.grace", "seconds", "seconds that runs may take to end after SIGTERM", 30, zero=True),
    Key("prices", "prices", "money per million tokens, by model: `{input: 2.5, output: 10}`", (), harmless=True),
)  # fmt: skip
BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}

# Keys of the items of lists and of mappings with names of their own.
WEBHOOK_KEYS: tuple[Key, ...] = (
    Key("url", "secret", "`http://…` or `https://…`"),
    Key("retry.attempts", "count", "how often it is tried in a row", 3),
    Key("retry.initial", "seconds", "seconds before the second try; then longer", 1),
    Key("retry.max", "seconds", "… at most", 30),
    Key("secret", "secret", "what is sent is signed with it"),
    Key("template", "text", "the text that is sent instead of JSON"),
    Key("link", "text", "an address of yours with `{token}` in it: a person decides there"),
    Key("headers", "pairs", "sent along"),
    Key("timeout", "seconds", "seconds of one try", 10),
    Key("allow_private", "flag", "`false`: hosts in private networks are refused", True),
)
RULE_KEYS: tuple[Key, ...] = tuple(
    key._replace(name=key.name.removeprefix("retention."))
    for key in KEYS
    if key.name.startswith("retention.") and key.kind not in ("rules",) and key.name != "retention.messages"
)
PRICE_KEYS: tuple[Key, ...] = (
    Key("input", "number", "per million tokens that a model reads", 0),
    Key("output", "number", "per million tokens that it writes", 0),
)

# What other tools call the same settings.
ALIASES: Mapping[str, str] = {
    "DATABASE_URL": "store", "CACHE_URL": "hot", "CACHE_TTL": "cache_ttl", "OPENAI_MODEL": "agent.model",
}  # fmt: skip
PREFIX = "PERDURE_"
# Says which file is read, so it is no key of one.
CONFIG_VARIABLE = "PERDURE_CONFIG"


def variable_of(name: str) -> str:
    """The environment variable of a key: `checkpoints.strategy` is `PERDURE_CHECKPOINTS__STRATEGY`."""
    return PREFIX + name.upper().replace(".", "__")
