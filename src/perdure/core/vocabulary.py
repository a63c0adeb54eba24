"""Closed vocabularies: a word that is none of them is refused, with the nearest one as a suggestion."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.core.errors import InvalidFilterError, short_repr


def one_of(word: object, words: Iterable[str], what: str, error: type[Exception] = InvalidFilterError) -> str:
    """Return `word` if it is one of `words`; raise an error that names what it is for, and all of them."""
    known = tuple(words)
    if isinstance(word, str) and word in known:
        return str(word)
    *most, last = (f'"{each}"' for each in known)
    either = f"{', '.join(most)} or {last}" if most else last
    raise error(f"{what} must be {either}, not {short_repr(word)}{suggestion(word, known)}")


def suggestion(word: object, known: Iterable[str]) -> str:
    """The nearest of the known words, to be put behind an error; empty where none is near."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that is most like one that was mistyped, in whatever case."""
    from difflib import get_close_matches  # only where something is refused: importing it is felt at the start

    by_fold = {each.casefold(): each for each in known}
    near = get_close_matches(word[:200].casefold(), by_fold, 1) if isinstance(word, str) else []
    return by_fold[near[0]] if near else None
