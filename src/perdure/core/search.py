"""Searching messages: what a word is, and what a query asks for. Every storage answers by this rule.

All words of a query, in any order and any case, have to be in a message. A query without a word (an emoji, a quote, a
percent sign) is looked for as it stands. Nothing in a query is an operator.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

import msgspec

_WORDS = re.compile(r"\w+")
_LONGEST = 40  # a longer word is known by its digest
# Scripts without spaces between words: each character is a word of its own, or nobody could find a part of a sentence.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)


class Search(msgspec.Struct, frozen=True):
    """What a query asks for: words, or, where it has none, a text as it stands."""

    words: tuple[str, ...] = ()
    literal: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing, so that everything answers it."""
        return not self.words and not self.literal


def search_of(query: str) -> Search:
    """Read a query."""
    words = words_of(query)
    return Search(tuple(words)) if words else Search((), _folded(query.strip()))


def words_of(text: str) -> list[str]:
    """The words of a text, each once, as indexes keep them: letters a–z, digits and underscores only."""
    folded = _folded(text)
    if folded.isascii():
        return list(dict.fromkeys(word if len(word) <= _LONGEST else _digest(word) for word in _WORDS.findall(folded)))
    return list(dict.fromkeys(map(_key, _WORDS.findall(spaced(folded)))))


def spaced(text: str) -> str:
    """The text with spaces around each character of scripts that have none between words."""
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def holds(text: str, search: Search) -> bool:
    """Whether a text answers a query."""
    if search.literal:
        return search.literal in _folded(text)
    return not search.words or set(search.words) <= set(words_of(text))


def _folded(text: str) -> str:
    """The text without differences of case, and of how an accent is written."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _key(word: str) -> str:
    return word if word.isascii() and len(word) <= _LONGEST else _digest(word)


def _digest(word: str) -> str:
    """A word that some index could not keep as it is. No other word begins with two underscores and is as long."""
    return "__" + hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
