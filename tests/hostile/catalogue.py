"""The hostile inputs: each is a named value of a category, and the category says where it is tried.

`CATALOGUE` holds all of them in a fixed order, so that a sample is the same in every run. Another module adds its own
with `register`; `campaign.py` lists the modules that do.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

CANARY = "perdure_canary"  # the name of a module, a function and a file that nothing ever may import, call or make
CODE = f"__import__('{CANARY}').{CANARY}()"


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """One input."""

    category: str
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.category}: {self.name}"


CATALOGUE: list[Hostile] = []


def register(category: str, inputs: Iterable[Any] | dict[str, Any]) -> None:
    """Add inputs; those without a name are called by their number and how they begin."""
    named = inputs if isinstance(inputs, dict) else {f"{at} {_shown(each)}": each for at, each in enumerate(inputs)}
    for name, value in named.items():
        CATALOGUE.append(Hostile(category=category, name=name, value=value))


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except ValueError:  # Python writes no int of 5,000 digits
        return f"a {type(value).__name__}"


def sample(every: int) -> list[Hostile]:
    """Each `every`-th input, at least one of each category."""
    return [each for at, each in enumerate(CATALOGUE) if at % every == 0 or _is_first(at)]


def _is_first(at: int) -> bool:
    return at == 0 or CATALOGUE[at - 1].category != CATALOGUE[at].category


SQL = (
    "'", "''", '"', "`", "\\", "\\'", "';--", "' OR '1'='1", "' OR 1=1 --", '" OR ""="', "1 OR 1=1", "' OR 1=1 #",
    "') OR ('1'='1", "x' UNION SELECT * FROM perdure_thread --", "x' UNION ALL SELECT payload FROM perdure.entry --",
    "'; DROP TABLE perdure_thread; --", "'; DELETE FROM perdure.thread; COMMIT; --", "$1", "%s", "%(user)s", ":user",
    "?",
    "?1", "@user", "%", "_", "%%", "a%", "\\%", "\\_", "[a-z]", "* ", "*/ OR 1=1 /*", "/*!50000 OR 1=1 */", "--", "#",
    "\r\nSELECT 1", "$$ OR TRUE $$", "$tag$", "E'\\047'", "U&'\\0027'", "X'27'", "0x27", "CHAR(39)", "chr(39)||chr(39)",
    "\u02bc OR 1=1", "\uff07 OR 1=1", "\u2019 OR 1=1", "\ubf27", "\xbf\x27 OR 1=1",
    "'||(SELECT user_id FROM thread)||'",
    "' AND SLEEP(9)='", "'; SELECT pg_sleep(9); --", "' AND randomblob(900000000) --", "{fn NOW()}", "NULL", "true",
    "NaN",
    "'::jsonb @> '{}'", "$.a' OR 1=1 --", '$."a"', "alice' --", "alice'/*", "ALICE", "alice\t", "load_extension('x')",
    "ATTACH DATABASE 'x' AS y", "COPY t TO PROGRAM 'id'", "INTO OUTFILE '/tmp/x'", "\N{BOM}' OR 1=1",
)  # fmt: skip

TEMPLATES = (
    CODE, f"{{{{{CODE}}}}}", f"${{{CODE}}}", f"{{__class__.__init__.__globals__[{CANARY}]}}", f"%({CANARY})s",
    "{0.__class__}",
    "{}", "{0}", "%n%n%n", "%s" * 50, f"$(touch {CANARY})", f"`touch {CANARY}`", f"| touch {CANARY}",
    f"!!python/name:{CANARY}.x",
    f"c{CANARY}\nsystem\n(S'x'\ntR.", f"{CANARY}:{CANARY}", f"perdure.{CANARY}", "__proto__", "constructor.prototype",
    "__class__", "__reduce__", "__dict__", "${jndi:ldap://127.0.0.1/a}", "<script>alert(1)</script>",
    "javascript:alert(1)",
)  # fmt: skip


def _twins() -> dict[str, str]:
    """Ids that a database, a file system or a person could take for `alice`, `shared` or each other."""
    made = {
        "upper case": "SHARED", "title": "Shared", "trailing space": "shared ", "leading space": " shared",
        "trailing tab": "shared\t", "trailing newline": "shared\n", "trailing dot": "shared.",
        "no-break space": "shared\xa0",
        "zero width": "sha\u200bred", "joiner": "sha\u2060red", "soft hyphen": "sha\xadred",
        "full width": "\uff53\uff48\uff41\uff52\uff45\uff44",
        "cyrillic": "sh\u0430red", "accent": "sh\u00e1red", "decomposed": "sha\u0301red", "long s": "\u017fhared",
        "dotless": "\u0131", "dotted": "\u0130", "sharp s": "stra\u00dfe", "double s": "strasse",
        "capital sharp s": "STRA\u1e9eE",
        "ligature": "\ufb01le", "no ligature": "file", "kelvin": "\u212a", "k": "k", "angstrom": "\u212b",
        "a ring": "\u00c5",
        "bidi": "\u202eshared", "isolate": "\u2066shared\u2069", "variation": "shared\ufe0f", "emoji": "\U0001f600",
        "other emoji": "\U0001f601", "noncharacter": "\uffff", "private": "\ue000", "last plane": "\U0010ffff",
        "hangul jamo": "\u1112\u1161\u11ab", "hangul": "\ud55c", "control": "\x01shared", "delete": "shared\x7f",
        "escape": "\x1b[2Jshared", "separator": "\x1f", "reserved": "\x1fresults\x1fhostile\x1f", "c1": "\x9b31m",
    }  # fmt: skip
    assert unicodedata.normalize("NFC", made["decomposed"]) == made["accent"]
    return made


PATHS_OF_FILES = (
    "../../shared", "..", ".", "/", "//", "/etc/passwd", "\\", "..\\..\\x", "C:\\x", "C:", "\\\\host\\share", "CON",
    "con.txt",
    "NUL", "COM1", "LPT1.", "aux", "a:b", "a*b?", "file:///etc/passwd", "~", "~root", "-rf", "--help",
    "a/b/../../../x", ".git",
    "%2e%2e%2f", "%00", "..%c0%af", "..;/", "index.jsonl", "perdure.json", "log.jsonl", ".gitignore", "lock", "a.tmp",
    f"../{CANARY}", f"/tmp/{CANARY}", f"../../../../../../dev/shm/{CANARY}",
)  # fmt: skip

LENGTHS = {
    "1 character": "x", "512 characters": "x" * 512, "512 of four bytes": "\U0001f600" * 512, "512 quotes": "'" * 512,
    "512 backslashes": "\\" * 512, "512 combining": "a" + "\u0301" * 511, "513 characters": "x" * 513,
    "a million": "x" * 1_000_000, "empty": "", "only spaces": " " * 5, "NUL": "\0", "NUL inside": "shared\0x",
    "NUL at the end": "shared\0", "high surrogate": "\ud800", "low surrogate": "shared\udfff",
    "reversed pair": "\udc00\ud800",
}  # fmt: skip

NOT_TEXTS: dict[str, Any] = {
    "none": None, "int": 7, "negative": -1, "huge int": 10**5000, "float": 1.5, "nan": float("nan"), "bool": True,
    "bytes": b"shared", "bytearray": bytearray(b"x"), "list": ["shared"], "dict": {"$ne": None}, "empty dict": {},
    "tuple": ("shared",), "set": {"shared"}, "type": str, "object": object(), "function": len, "ellipsis": ...,
    "nested": [[[[[]]]]], "dict with bytes": {b"x": 1}, "range": range(3), "complex": 1j,
}  # fmt: skip


class _Text(str):
    """A text that lies about itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("shared")

    def __str__(self) -> str:
        return "alice"


NOT_TEXTS["a subclass of str"] = _Text("shared")

REFS = (
    "", "@", "@@", "@@@", "@0", "@-0", "@1", "@-1", "@00001", "@+1", "@ 1", "@1 ", "@1.0", "@1e3", "@0x1", "@1_000",
    "@" + "9" * 18, "@-" + "9" * 18, "@" + "9" * 19, "@-" + "9" * 19, "@" + "9" * 10_000, "@\u0663", "@\uff11",
    "@\u00b2", "@-\u0663",
    "@chk_",
    "@chk_x", "@chk_" + "0" * 26, "@chk_" + "z" * 26, "@chk_'", "@chk_" + "a" * 100_000, "@chk_\u0661", "@tag:",
    "@tag:x", "@tag:'",
    "@tag:" + "x" * 100_000, "@tag:\0", "@tag:\ud800", "@tag:%", "@tag:alice", "@0s", "@1s", "@999999w", "@1000000w",
    "@2H",
    "@2 h", "@-2h", "@2mo", "@\u0661h", "@2026-11-01", "@2026-11-01T12:00Z", "@0001-01-01",
    "@9999-12-31T23:59:59.999999+00:00",
    "@0001-01-01T00:00+14:00", "@9999-12-31T23:59-14:00", "@2026-02-30", "@2026-W01", "@2026-001", "@-2026-01-01",
    "@10000-01-01",
    "@2026-11-01T12:00:00.000000001Z", "@2026-11-01T24:00", "@2026-11-01T12:00+99:99", "@before-error", "@BEFORE-ERROR",
    "@before-error@before-error", "shared@1", "shared@-1", "shared@chk_x", "@shared", "shared@", "@1@2", "alice@1",
    "@..", "@../1",
    "@1;DROP", "@{}", "@[0]", "@true", "@None", "@NaN", "@inf",
)  # fmt: skip

SEARCHES = (
    "*", "**", "a*", "*a", '"', '""', '"a', 'a"', "a AND b", "a OR b", "a NOT b", "NOT", "AND", "OR", "NEAR",
    "NEAR(a b)",
    "NEAR(a b, 99999999999999)", "a NEAR/0 b", "body:a", "body : a", "thread:alice", "user_id:alice",
    "{body user}: a", "- body : a",
    "^a", "a^2", "a + b", "a-b", "-a", "+a", "(", ")", "()", "((((((((", "a)", "(a", "a & b", "a | b", "!a", "a <-> b",
    "a <2> b", "a <99999999> b", "a:*", "a:ABCD", "'a'", "'a' & 'b", "a\\", "\\", ":", "a:b:c", "&", "|", "!", "<->",
    "!!!a",
    "+a -b", ">a <b", "~a", "(+a >b)", '"a b"@8', "@8", "a@b.c", "a*b*c*", "%", "_", "%_%", "\\%", "(a+)+$",
    "(a|a)*b" * 20, ".*" * 50, "^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 1_000_000, "a " * 100_000, "* " * 10_000,
    "(" * 10_000, '"' * 10_001, "\u0301" * 100_000, "a\u0301" * 50_000, "\U00020000" * 20_000, "\N{SNOWMAN}", " ",
    "\t\n", "\0",
    "a\0b", "\ud800", "a\udfffb", "\ufdfa" * 10_000, "\u0130" * 1000, "ß" * 1000, "select", "alice", "canary", "x'y",
    "$$", ";", "--",
    "__" + "0" * 40,
)  # fmt: skip

STATE_PATHS: tuple[Any, ...] = (
    "", ".", "..", "a..b", ".a", "a.", "a.b.c.d.e.f", ".".join("a" * 99), ".".join("a" * 100),
    ".".join("a" * 100_000), "a[0]",
    "a[", "a]", "list.0", "list.-1", "list.99999999999999999999", "list.1e3", "list.x", f"list.{'9' * 5000}",
    "text.0", "text.upper",
    "number.real",
    "__class__", "__class__.__init__.__globals__", "__dict__.x", "v.__len__", "keys", "items", "\0", "a.\0", "\ud800",
    "a.\udfff",
    "x" * 1_000_000, "'", "$.a", "$[*]", "/a/b", "~0~1", "../a", "*", "**", "a.*", "@1",
    (), ("",), ("a", ""), (0,), (-1,), ("list", 0), ("list", -1), ("list", -99), ("list", 10**30), ("list", True),
    ("list", 1.0),
    ("list", None), (None,), ((),), ("a",) * 200, ("\ud800",), (b"a",), ("list", 2**31), ("list", 1 << 40), ("list",
    10**5000), (10**5000,), ("a", -(10**5000)), ["a"], None, 0, {},
)  # fmt: skip

KEYS_AND_FILTERS: tuple[Any, ...] = (
    {"": ""}, {"'": "'"}, {"$.a": 1}, {"a.b": 1}, {'a"b': 1}, {"a\\": 1}, {"\0": 1}, {"a": "\0"}, {"\ud800": 1},
    {"a": "\udfff"},
    {"a": 10**5000}, {"a": float("nan")}, {"a": float("inf")}, {"a": -0.0}, {"a": 2**63}, {"a": 2**64},
    {"a": -(2**63) - 1},
    {"a": None}, {"a": {}}, {"a": []}, {"a": {"$ne": 1}}, {"$where": CODE}, {"$or": [{}, {}]},
    {"a": {"$regex": "(a+)+$"}},
    {"a": b"\xff"}, {"a": (1, 2)}, {"a": {1, 2}}, {"a": object()}, {"a": len}, {1: 1}, {None: 1}, {b"x": 1}, {(): 1},
    {True: 1},
    {"x" * 100_000: 1}, {"a": "x" * 1_000_000}, {f"k{each}": each for each in range(5000)}, {"user": "alice"},
    {"user_id": "alice"},
    {"namespace": ""}, {"secret": True}, {"a": [[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]},
)  # fmt: skip

_BILLION = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
YAMLS: dict[str, str] = {
    "aliases that multiply": _BILLION,
    "an alias of itself": "storage: &a {sessions: *a}",
    "a list in itself": "storage: &a [*a]",
    "an alias to nothing": "storage: *nothing",
    "a chain of aliases": "\n".join(["a0: &a0 x", *(f"a{at}: &a{at} [*a{at - 1}]" for at in range(1, 2000))]),
    "an object": f"storage: !!python/object:{CANARY}.X {{}}",
    "an application": f"storage: !!python/object/apply:os.system ['touch {CANARY}']",
    "a new object": f"storage: !!python/object/new:{CANARY}.X [1]",
    "a name": f"storage: !!python/name:{CANARY}.X",
    "a module": f"storage: !!python/module:{CANARY}",
    "a tuple": "storage: !!python/tuple [1]",
    "an own tag": "storage: !exec 'x'",
    "a tag directive": f"%TAG ! tag:yaml.org,2002:python/object/apply:\n---\nstorage: !os.system ['touch {CANARY}']",
    "a long tag": "storage: !<tag:yaml.org,2002:python/object/apply:os.system> [x]",
    "binary": "storage: !!binary gASVIAAAAA==",
    "a set": "storage: !!set {a, b}",
    "an ordered map": "storage: !!omap [a: 1]",
    "a timestamp": "storage: {sessions: !!timestamp 2026-01-01}",
    "a wrong int": "storage: {checkpoint: {interval: !!int x}}",
    "a merge": "a: &a {sessions: 'memory://'}\nstorage: {<<: *a}",
    "a key twice": "storage: {sessions: 'memory://'}\nstorage: {sessions: 'sqlite:////etc/x.db'}",
    "a huge int": f"storage: {{checkpoint: {{interval: {'9' * 100_000}}}}}",
    "a huge octal": f"storage: {{checkpoint: {{interval: 0o{'7' * 10_000}}}}}",
    "a huge sexagesimal": f"storage: {{checkpoint: {{every: {':'.join(['59'] * 5000)}}}}}",
    "a huge float": "storage: {checkpoint: {every: 1e999999999}}",
    "infinity": "storage: {checkpoint: {every: .inf}}",
    "not a number": "storage: {checkpoint: {every: .nan}}",
    "deep lists": "storage: " + "[" * 50_000,
    "deep mappings": "{a: " * 20_000,
    "deep blocks": "\n".join(" " * at + "a:" for at in range(3000)),
    "deep sequences": "- " * 50_000,
    "many keys": "\n".join(f"k{at}: 1" for at in range(20_000)),
    "a megabyte": "x" * 1_000_000,
    "a long key": "? " + "x" * 100_000 + "\n: 1",
    "a complex key": "? [a, b]\n: 1",
    "a mapping for a key": "{{a: b}: c}",
    "two documents": "storage: {sessions: 'memory://'}\n---\nstorage: {sessions: 'sqlite:////etc/x.db'}",
    "a NUL": "storage: \0",
    "an escape": "storage: {sessions: '\x1b[2J'}",
    "a bidi override": "storage: {sessions: \"\\u202Ememory://\"}",
    "a surrogate": "storage: {sessions: \"\\uD800\"}",
    "a bad escape": 'storage: "\\x"',
    "a byte order mark inside": "storage:\ufeff x",
    "tabs": "storage:\n\tsessions: 'memory://'",
    "unfinished": "storage: {sessions: 'x",
    "a directive": "%YAML 99.99\n---\nstorage: {}",
    "a long directive": "%" + "A" * 100_000 + "\n---\n",
    "a scalar": CODE,
    "a list": "- storage",
    "a variable in a variable": "storage: {sessions: '${A${A${A}}}'}",
    "a variable of itself": "storage: {sessions: '${HOSTILE_LOOP}'}",
    "a default in a default": "storage: {sessions: '${A:-${B:-${C:-memory://}}}'}",
    "many variables": "storage: {sessions: '" + "${PATH}" * 20_000 + "'}",
    "a variable without an end": "storage: {sessions: '" + "${" * 50_000 + "'}",
    "a variable with code": "storage: {sessions: '${$(touch x)}'}",
    "a variable that is a path": "storage: {sessions: '${../x}'}",
    "keys from a variable": "storage: {sessions: \"${HOSTILE_KEYS}\"}",
    "an unknown key": "storage: {__class__: x, sessions: 'memory://'}",
    "a server": "storage: {sessions: 'postgresql://u:p@127.0.0.1:1/x?host=/tmp'}",
    "a port that is none": "storage: {sessions: 'postgresql://h:99999999/x'}",
    "an IPv6 that is none": "storage: {sessions: 'postgresql://[::::]/x'}",
    "a path out": "storage: {sessions: 'sqlite:////etc/x.db?synchronous=OFF'}",
    "a NUL in a path": 'storage: {sessions: {backend: sqlite, path: "a\\0b"}}',
    "a reserved namespace": 'storage: {sessions: {backend: memory, namespace: "\\x1fresults\\x1f\\x1f"}}',
    "a mode for everybody": "storage: {sessions: {backend: sqlite, path: x, file_mode: 0o7777}}",
    "a header that is two": 'notifications: [{url: "http://h/", headers: {"X": "a\\r\\nB: c"}}]',
    "a template of objects": "notifications: [{url: 'http://h/', template: '{ask.__class__.__init__.__globals__}'}]",
    "an address of files": "notifications: [{url: 'file:///etc/passwd'}]",
}  # fmt: skip

TWINS = _twins()
register("injection", (*SQL, *TEMPLATES))
register("ids", {**TWINS, **{f"path {each!r}": each for each in PATHS_OF_FILES}, **LENGTHS})
register("types", NOT_TEXTS)
register("refs", REFS)
register("searches", SEARCHES)
register("paths", STATE_PATHS)
register("filters", KEYS_AND_FILTERS)
register("yaml", YAMLS)
