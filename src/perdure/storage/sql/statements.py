"""Every statement, with a name and a sentence. Values are always bound."""

from __future__ import annotations

_THREAD_COLUMNS = (
    "row, uid, namespace, user_id, id, name, agent, tags, status, head, head_state_version, head_digest, "
    "last_checkpoint, epoch, lease_owner, lease_until, wake_at, attempts, parent, parent_version, created_at, "
    "updated_at"
)
_ENTRY_COLUMNS = "version, kind, at, actor, write_id, idem_key, request, schema, payload_digest, chain"
_CHECKPOINT_COLUMNS = (
    "c.id, c.kind, c.status, c.note, c.agent, c.metadata, c.version, c.row & 4294967295, c.parent, c.at, "
    "t.id, t.user_id"
)

# The directory line of a thread that can be seen.
THREAD = f"SELECT {_THREAD_COLUMNS} FROM perdure_thread WHERE name_key = ?"

# Whether the indexes know a thread that could not be found: the first is answered by the index alone.
INDEXED_THREAD = "SELECT row FROM perdure_thread WHERE name_key = ?"
NAMED_THREAD = """SELECT row FROM perdure_thread
WHERE namespace = ? AND user_id = ? AND id = ? AND name_key IS NOT NULL"""

# The directory line of a thread by uid, also of one that only forks can see.
THREAD_BY_UID = f"SELECT {_THREAD_COLUMNS} FROM perdure_thread WHERE uid = ?"

# All threads of one id, whoever owns them.
THREADS_BY_ID = f"""SELECT {_THREAD_COLUMNS} FROM perdure_thread
WHERE namespace = ? AND id = ? AND name_key IS NOT NULL ORDER BY user_id"""

# The directory, newest first, after a cursor; a user of NULL is everybody.
THREADS = f"""SELECT {_THREAD_COLUMNS} FROM perdure_thread
WHERE namespace = ? AND (? IS NULL OR user_id = ?) AND name_key IS NOT NULL AND (updated_at, uid) < (?, ?)
ORDER BY updated_at DESC, uid DESC LIMIT ?"""

INSERT_THREAD = """INSERT INTO perdure_thread (uid, name_key, namespace, user_id, id, name, agent, tags, status, head,
  head_state_version, head_digest, last_checkpoint, epoch, lease_owner, lease_until, wake_at, attempts, parent,
  parent_version, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING row"""

# The head moves; nothing else of the line changes.
MOVE_HEAD = """UPDATE perdure_thread
SET head = ?, head_state_version = ?, head_digest = ?, last_checkpoint = ?, lease_until = ?, updated_at = ?
WHERE row = ?"""

# The head moves, if the line still is what this process knows: a save without reading it first.
MOVE_KNOWN_HEAD = """UPDATE perdure_thread
SET head = ?, head_state_version = ?, head_digest = ?, last_checkpoint = ?, updated_at = ?
WHERE row = ? AND uid = ? AND head = ? AND head_digest = ? AND epoch = ? AND lease_owner IS NULL AND wake_at IS NULL
  AND name_key IS NOT NULL"""

# Everything of the line that a patch or a lease may change.
PATCH_THREAD = """UPDATE perdure_thread
SET name = ?, agent = ?, tags = ?, status = ?, epoch = ?, lease_owner = ?, lease_until = ?, wake_at = ?, attempts = ?
WHERE row = ?"""

INSERT_ENTRY = """INSERT INTO perdure_entry
  (row, kind, at, actor, write_id, idem_key, request, schema, payload_digest, chain, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

# The entry a key stands for.
ENTRY_BY_KEY = "SELECT version, request FROM perdure_entry WHERE thread = ? AND idem_key = ?"

# The first entry of a write among newer ones, for a retry.
ENTRY_BY_WRITE = "SELECT version FROM perdure_entry WHERE row > ? AND row <= ? AND write_id = ? ORDER BY row LIMIT 1"

# Entries for folding: the payload only where the state changed.
FOLD = f"""SELECT {_ENTRY_COLUMNS},
  CASE WHEN kind IN ('state.saved', 'state.updated', 'thread.rewound') THEN payload END
FROM perdure_entry WHERE row > ? AND row <= ? ORDER BY row"""

# Entries with everything.
ENTRIES = f"SELECT {_ENTRY_COLUMNS}, payload FROM perdure_entry WHERE row > ? AND row <= ? ORDER BY row LIMIT ?"

# Entries without payload, in order.
LIGHT_ENTRIES = f"SELECT {_ENTRY_COLUMNS}, NULL FROM perdure_entry WHERE row > ? AND row <= ? ORDER BY row LIMIT ?"

# Entries without payload, newest first, up to a time.
HEADERS = f"""SELECT {_ENTRY_COLUMNS}, NULL FROM perdure_entry
WHERE row > ? AND row <= ? AND (? IS NULL OR at <= ?) ORDER BY row DESC LIMIT ?"""

# What a fork starts from: the newest entry of a range, and the newest one that changed the state.
LAST_CHAIN = "SELECT chain, at FROM perdure_entry WHERE row = ?"
LAST_STATE = """SELECT version FROM perdure_entry
WHERE row > ? AND row <= ? AND kind IN ('state.saved', 'state.updated', 'thread.rewound') ORDER BY row DESC LIMIT 1"""

# The newest whole state up to a version.
SNAPSHOT = """SELECT row & 4294967295, chain, digest, payload, base FROM perdure_snapshot
WHERE row >= ? AND row <= ? ORDER BY row DESC LIMIT 1"""

PUT_SNAPSHOT = """INSERT INTO perdure_snapshot (row, base, chain, digest, payload) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (row) DO UPDATE
SET base = excluded.base, chain = excluded.chain, digest = excluded.digest, payload = excluded.payload
WHERE excluded.base >= base"""
DROP_SNAPSHOT = "DELETE FROM perdure_snapshot WHERE row = ? AND base = 0"

INSERT_CHECKPOINT = """INSERT INTO perdure_checkpoint
  (row, id, thread, version, kind, status, note, agent, metadata, parent, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

# Checkpoints of one thread, newest first.
CHECKPOINTS = f"""SELECT {_CHECKPOINT_COLUMNS} FROM perdure_checkpoint c JOIN perdure_thread t ON t.row = c.thread
WHERE c.row >= ? AND c.row < ? AND (? IS NULL OR c.kind = ?) AND (? IS NULL OR c.status = ?)
  AND (? IS NULL OR c.agent = ?) AND (? IS NULL OR c.at >= ?) AND (? IS NULL OR c.at < ?)
ORDER BY c.row DESC LIMIT ?"""

# Checkpoints of all threads of a user, newest first by id.
USER_CHECKPOINTS = f"""SELECT {_CHECKPOINT_COLUMNS} FROM perdure_checkpoint c JOIN perdure_thread t ON t.row = c.thread
WHERE c.id < ? AND t.namespace = ? AND (? IS NULL OR t.user_id = ?) AND t.name_key IS NOT NULL
  AND (? IS NULL OR c.kind = ?) AND (? IS NULL OR c.status = ?)
  AND (? IS NULL OR c.agent = ?) AND (? IS NULL OR c.at >= ?) AND (? IS NULL OR c.at < ?)
ORDER BY c.id DESC LIMIT ?"""

# One checkpoint, for a user who may see it.
CHECKPOINT = f"""SELECT {_CHECKPOINT_COLUMNS} FROM perdure_checkpoint c JOIN perdure_thread t ON t.row = c.thread
WHERE c.id = ? AND t.namespace = ? AND (? IS NULL OR t.user_id = ?) AND t.name_key IS NOT NULL"""

CHECKPOINT_AT = f"""SELECT {_CHECKPOINT_COLUMNS} FROM perdure_checkpoint c JOIN perdure_thread t ON t.row = c.thread
WHERE c.row = ?"""
CHECKPOINT_PLACE = "SELECT row FROM perdure_checkpoint WHERE id = ?"
LAST_CHECKPOINT = "SELECT id FROM perdure_checkpoint WHERE row >= ? AND row <= ? ORDER BY row DESC LIMIT 1"

# Threads that somebody should look at: each part by its own index.
DUE = f"""SELECT {_THREAD_COLUMNS} FROM (
  SELECT *, lease_until AS due_at FROM perdure_thread
  WHERE namespace = ? AND lease_owner IS NOT NULL AND lease_until <= ? AND name_key IS NOT NULL
  UNION ALL
  SELECT *, wake_at AS due_at FROM perdure_thread
  WHERE namespace = ? AND wake_at IS NOT NULL AND wake_at <= ? AND lease_owner IS NULL AND name_key IS NOT NULL
) ORDER BY due_at LIMIT ?"""

# A large value is inserted once, and touched every time it is written again.
PUT_BLOB = """INSERT INTO perdure_blob (scope, digest, touched_at, payload) VALUES (?, ?, ?, ?)
ON CONFLICT (scope, digest) DO UPDATE SET touched_at = max(touched_at, excluded.touched_at) RETURNING row"""
USE_BLOB = """INSERT INTO perdure_blob_use (thread, blob, version) VALUES (?, ?, ?)
ON CONFLICT (thread, blob) DO UPDATE SET version = min(version, excluded.version)"""
BLOB_ROW = "SELECT row FROM perdure_blob WHERE scope = ? AND digest = ?"
BLOB = "SELECT payload FROM perdure_blob WHERE scope = ? AND digest = ?"
SWEEP_BLOBS = """DELETE FROM perdure_blob
WHERE touched_at <= ? AND NOT EXISTS (SELECT 1 FROM perdure_blob_use u WHERE u.blob = perdure_blob.row)"""

# Deleting: hide first; free what no fork needs.
HIDE_THREAD = "UPDATE perdure_thread SET name_key = NULL, lease_owner = NULL, wake_at = NULL WHERE row = ?"
IS_HIDDEN = "SELECT name_key IS NULL FROM perdure_thread WHERE row = ?"
NEEDED_BY_FORKS = "SELECT max(parent_version) FROM perdure_thread WHERE parent = ?"
DROP_ENTRIES = "DELETE FROM perdure_entry WHERE row > ? AND row < ?"
DROP_SNAPSHOTS = "DELETE FROM perdure_snapshot WHERE row > ? AND row < ?"
DROP_CHECKPOINTS = "DELETE FROM perdure_checkpoint WHERE row > ? AND row < ?"
DROP_BLOB_USES = "DELETE FROM perdure_blob_use WHERE thread = ? AND version > ?"
DROP_THREAD = "DELETE FROM perdure_thread WHERE row = ?"

# How many and how large, of one thread (a range of rows) or of all.
ENTRY_SIZES = "SELECT count(*), coalesce(sum(length(payload)), 0) FROM perdure_entry WHERE row >= ? AND row < ?"
SNAPSHOT_SIZES = "SELECT count(*), coalesce(sum(length(payload)), 0) FROM perdure_snapshot WHERE row >= ? AND row < ?"
CHECKPOINT_COUNT = "SELECT count(*) FROM perdure_checkpoint WHERE row >= ? AND row < ?"
BLOB_SIZES = "SELECT count(*), coalesce(sum(length(payload)), 0) FROM perdure_blob"
THREAD_COUNT = "SELECT count(*) FROM perdure_thread WHERE row >= ? AND row < ? AND name_key IS NOT NULL"

META = "SELECT name, value FROM perdure_meta"
HAS_META = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'perdure_meta'"
