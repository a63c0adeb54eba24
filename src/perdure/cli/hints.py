"""Commands to type next: safe to print, safe to paste into a shell, and without the password of an address."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from perdure.core.addresses import redact_url
from perdure.core.printable import printable

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SEQUENCE = re.compile(rb"[^\x20-\x7e]|['\\]")


def hint(name: str, store: str | None, arguments: Sequence[str], options: Mapping[str, str | bool | None]) -> str:
    """`perdure NAME STORE ARGUMENT… --option VALUE…`; an option that is None is left out, one that is True is a flag.

    Without a store, that of PERDURE_STORE or of a file is meant again. An address has `…` in the place of its user and
    password.
    """
    words = [word for option, value in options.items() for word in _option(option, value)]
    # A thread may be called --help or sqlite:///x.db: after -- nothing is an option or an address.
    plain = not any(each[:1] == "-" or (store is None and _ADDRESS.match(each)) for each in arguments[:1]) and not any(
        each[:1] == "-" for each in arguments
    )
    given = [*arguments, *words] if plain else [*words, "--", *arguments]
    return " ".join(["perdure", name, *map(quoted, [*([redact_url(store)] if store else []), *given])])


def quoted(word: str) -> str:
    """A word as a shell reads it; in $'…', for bash, zsh and ksh, where it would not be printed as it is."""
    if printable(word) == word:
        return shlex.quote(word)
    # Octal is the one form of bytes that reads the same in all of them, whatever the locale and the next character.
    return "$'" + _SEQUENCE.sub(_octal, os.fsencode(word)).decode() + "'"


def _octal(found: re.Match[bytes]) -> bytes:
    return b"\\%03o" % found[0][0]


def _option(option: str, value: str | bool | None) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    return [f"{option}={value}"] if value[:1] == "-" else [option, value]
