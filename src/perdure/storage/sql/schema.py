"""The layout in numbered steps, one shape on all databases, as SQL that people may read and run themselves."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.storage.sql.dialect import Dialect
from perdure.storage.steps import Step

_META = """
CREATE TABLE {t}meta (
  name   {id} PRIMARY KEY,
  value  {text} NOT NULL
){rowless}{table}
"""

_THREAD = """
CREATE TABLE {t}thread (
  "row"            {serial},
  uid              {uid} NOT NULL UNIQUE,      -- tells a thread from a later one of the same id
  name_key         {hash} UNIQUE,              -- hash of (namespace, user_id, id); NULL: only forks see it
  namespace        {id} NOT NULL,
  user_id          {user},
  id               {id} NOT NULL,
  name             {text},
  agent            {text},
  tags             {text} NOT NULL,            -- a JSON list
  metadata         {text},                     -- what is known of the thread, as JSON
  status           {text} NOT NULL,
  head             {int} NOT NULL,             -- version of the newest entry
  head_state_version {int} NOT NULL,           -- version of the newest entry that changed the state
  run_version      {int} NOT NULL,             -- version of the newest `run.started` entry, 0 for none
  head_digest      {hash} NOT NULL,            -- chain digest of the newest entry
  last_checkpoint  {id},
  epoch            {int} NOT NULL,
  lease_owner      {text},
  lease_until      {int} NOT NULL,             -- times are microseconds since 1970, UTC
  wake_at          {int},
  attempts         {int} NOT NULL,
  parent           {uid},                      -- uid of the thread this one was forked from
  parent_version   {int} NOT NULL,
  quarantined_at   {int},                      -- since when nothing of it runs, after an import; NULL: it is trusted
  origin           {text},                     -- SHA-256 of the file it was imported from
  origin_version   {int} NOT NULL,             -- its head in that file
  first_chain      {hash} NOT NULL,            -- chain digest of its first entry, or of the version it was forked from
  identity         {hash} NOT NULL,            -- digest of (namespace, user_id, id, uid, first_chain)
  created_at       {int} NOT NULL,
  updated_at       {int} NOT NULL{minute}
){table}
"""

_ENTRY = """
CREATE TABLE {t}entry (
  "row"            {place},                    -- thread * 2^32 + version
  kind             {text} NOT NULL,
  at               {int} NOT NULL,
  actor            {text},
  write_id         {hash} NOT NULL,
  idem_key         {key},
  request          {hash},                     -- digest of the request the key stands for
  "schema"         {int} NOT NULL,
  payload_digest   {hash} NOT NULL,
  chain            {hash} NOT NULL,
  payload          {bytes} NOT NULL{computed}
){table}
"""

_SNAPSHOT = """
CREATE TABLE {t}snapshot (
  "row"            {place},                    -- thread * 2^32 + version
  base             {int} NOT NULL,             -- 1: truth, 0: derived and may be dropped
  chain            {hash} NOT NULL,
  digest           {hash} NOT NULL,
  payload          {bytes} NOT NULL
){table}
"""

_CHECKPOINT = """
CREATE TABLE {t}checkpoint (
  "row"            {place},                    -- thread * 2^32 + version of the entry that made it
  id               {id} NOT NULL,              -- of one thread; copies of it may be in others
  thread           {int} NOT NULL,
  version          {int} NOT NULL,             -- the version it refers to
  kind             {id} NOT NULL,
  status           {text},
  note             {text},
  agent            {text},
  metadata         {bytes} NOT NULL,
  parent           {id},
  at               {int} NOT NULL
){table}
"""

_BLOB = """
CREATE TABLE {t}blob (
  "row"            {serial},
  scope            {hash} NOT NULL,            -- hash of (namespace, user_id)
  digest           {hash} NOT NULL,
  touched_at       {int} NOT NULL,
  payload          {bytes} NOT NULL,
  UNIQUE (scope, digest)
){table}
"""

_BLOB_USE = """
CREATE TABLE {t}blob_use (
  thread           {int} NOT NULL,
  "blob"           {int} NOT NULL,
  version          {int} NOT NULL,             -- the first version that refers to it
  PRIMARY KEY (thread, "blob")
){rowless}{table}
"""

_REWIND = """
CREATE TABLE {t}rewind (
  "row"            {place},                    -- thread * 2^32 + version of the entry that went back
  back_to          {int} NOT NULL              -- the version whose state it went back to
){table}
"""

_COMPOSED = """
CREATE TABLE {t}composed (
  "row"            {place},                    -- thread * 2^32 + version of the last entry of a pruned range
  low              {int} NOT NULL,             -- the version before its first
  chain            {hash} NOT NULL,
  digest           {hash} NOT NULL,
  payload          {bytes} NOT NULL            -- one change that does what those of the range did
){table}
"""

_MESSAGE = """
CREATE TABLE {t}message (
  "row"            {place},                    -- thread * 2^32 + its number in the conversation
  entry            {int},                      -- row of the entry that it is; NULL: `payload` is the message
  space            {int} NOT NULL,             -- a number for the namespace, for lists of everybody
  scope            {int} NOT NULL,             -- a number for (namespace, user_id), for lists of a user
  at               {int} NOT NULL,
  id               {id},
  role             {id} NOT NULL,
  node             {id},
  run              {id},
  tool_calls       {int} NOT NULL,
  error            {int} NOT NULL,             -- 1: it tells of a failure
  tokens           {int} NOT NULL,
  duration         {int} NOT NULL,             -- microseconds
  digest           {hash},
  payload          {bytes}{words}
){table}
"""

_PROJECTION = """
CREATE TABLE {t}projection (
  thread           {int} NOT NULL PRIMARY KEY,
  shape            {int} NOT NULL,             -- how its lines were made; another shape is made again
  version          {int} NOT NULL,             -- how far its log was read
  count            {int} NOT NULL              -- numbers given to messages so far
){table}
"""

# A second record of which threads there are: a thread whose own row was lost would look as if it never was there.
_CATALOG = """
CREATE TABLE {t}catalog (
  name_key         {hash} NOT NULL PRIMARY KEY, -- hash of (namespace, user_id, id), as in `thread`
  thread           {int} NOT NULL,             -- the row of the thread
  uid              {uid} NOT NULL,
  namespace        {id} NOT NULL,
  user_id          {user},
  id               {id} NOT NULL
){rowless}{table}
"""


class Index(msgspec.Struct, frozen=True):
    """An index; where a database has no partial ones, it holds all rows."""

    name: str
    on: str
    where: str = ""
    unique: bool = False


_INDEXES = (
    Index("thread_updated", "thread (namespace, {newest})"),
    Index("thread_user", "thread ({users})"),
    Index("thread_id", "thread ({ids})"),
    Index("thread_lease", "thread ({leases})", "lease_owner IS NOT NULL"),
    # Quarantined threads are left out by the index: a sweep would pass over them one by one.
    Index("thread_wake", "thread (namespace, quarantined_at, wake_at)", "wake_at IS NOT NULL"),
    Index("thread_parent", "thread (parent)", "parent IS NOT NULL"),
    Index("catalog_id", "catalog ({ids})"),
    Index("entry_key", "entry ({thread_of_entry}, idem_key)", "idem_key IS NOT NULL", unique=True),
    Index("checkpoint_id", "checkpoint (id)"),
    Index("checkpoint_kind", "checkpoint (thread, kind, version)"),
    Index("blob_use_blob", 'blob_use ("blob")'),
    Index("message_id", 'message (id, "row")', "id IS NOT NULL"),
    Index("message_scope", "message (scope, at)"),
    Index("message_space", "message (space, at)"),
)

Part = str | Index | Callable[[Dialect], list[str]]


class SchemaStep(Step, frozen=True, kw_only=True):
    """One change of the layout, done in one transaction where the database can.

    Where it cannot, a part whose maker was killed is done again: it must not matter how much of it was done before.
    """

    parts: tuple[Part, ...]


def _word_index(dialect: Dialect) -> list[str]:
    index = dialect.words.index
    return [text.format(t=dialect.tables) for text in index.layout] if index else []


_TABLES = (
    *(_META, _THREAD, _ENTRY, _SNAPSHOT, _CHECKPOINT, _BLOB, _BLOB_USE, _REWIND, _COMPOSED),
    *(_MESSAGE, _PROJECTION, _CATALOG),
)
STEPS: tuple[SchemaStep, ...] = (
    SchemaStep(
        number=1,
        why="the first layout",
        parts=(*_TABLES, *_INDEXES, _word_index),
        min_reader=1,
        min_writer=1,
    ),
)

TABLES = (
    *("meta", "thread", "entry", "snapshot", "checkpoint", "blob", "blob_use", "rewind", "composed"),
    *("message", "projection", "catalog"),
)


def run_step(step: SchemaStep, dialect: Dialect) -> list[str]:
    """The statements of one step, without its transaction. The numbers come last: they say that all of it is there."""
    statements = [text for part in step.parts for text in _written(part, dialect)]
    return [*map(dialect.laid_out, statements), *_marks(step, dialect)]


def _written(part: Part, dialect: Dialect) -> list[str]:
    if isinstance(part, Index):
        return [_index(part, dialect)]
    if not isinstance(part, str):
        return part(dialect)
    types = msgspec.structs.asdict(dialect.types)
    types |= {"uid": dialect.types.uid or dialect.types.id, "key": dialect.types.key or dialect.types.id}
    types |= {"words": dialect.words.column}
    table = part.strip().removeprefix("CREATE TABLE {t}").partition(" ")[0]
    changes = [f"ALTER TABLE {dialect.table(table)} {change}" for change in dialect.after(table)]
    return [part.strip().format(t=dialect.tables, **types), *changes]


def _index(index: Index, dialect: Dialect) -> str:
    newest = "updated_minute" if dialect.by_minute else "updated_at, uid"
    columns = {"users": dialect.user_columns, "ids": dialect.id_columns}
    columns |= {"leases": dialect.lease_columns, "newest": newest}
    on = index.on.format(thread_of_entry=dialect.thread_of_entry, **columns)
    where = f" WHERE {index.where}" if index.where and dialect.partial_indexes else ""
    unique = "UNIQUE " if index.unique else ""
    return f"CREATE {unique}INDEX {dialect.indexes}{index.name} ON {dialect.tables}{on}{where}"


def _marks(step: SchemaStep, dialect: Dialect) -> list[str]:
    values = msgspec.structs.asdict(step.schema)
    names = ", ".join(f"'{name}'" for name in values)
    rows = ", ".join(f"('{name}', '{value}')" for name, value in values.items())
    meta = dialect.table("meta")
    return [
        f"DELETE FROM {meta} WHERE name IN ({names})",  # noqa: S608  # names and numbers of ours
        f"INSERT INTO {meta} (name, value) VALUES {rows}",  # noqa: S608
    ]
