"""Ranking: the facts that answer a query, the best first, each with why it was found.

A fact that was superseded is found through its successor: the successor comes in its place, or, where old facts are
asked for, before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from perdure.core.times import to_datetime
from perdure.memory.embedders import similarities
from perdure.memory.facts import Fact, answers
from perdure.memory.index import FactIndex, Match

_EARLIER_WORDING = 0.5  # of the score, where only what a fact superseded has the words
_POOL = 100  # candidates of each search that are fused
_HALF_LIFE_DAYS = 30.0
_RECENCY, _KIND, _USE = 0.1, 0.1, 0.05  # how much a signal may add to a score; words count for the rest
_LASTING = ("preference", "procedure")


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What counts beside the words and vectors of a fact; all of it is off by default."""

    recency: bool = False  # newer facts first: half of it after 30 days
    kind: bool = False  # preferences and procedures first
    use: bool = False  # facts that were stated several times first


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that a search found, how well it answers (at most about 1), and why it was found."""

    fact: Fact
    score: float
    why: tuple[str, ...]

    @property
    def id(self) -> str:
        """The id of the fact."""
        return self.fact.id

    @property
    def text(self) -> str:
        """What the fact says."""
        return self.fact.text

    def __str__(self) -> str:
        return f"{self.fact.text} ({self.score:.2f}: {'; '.join(self.why)})"

    def __getitem__(self, name: str) -> Any:
        """A field of the hit, else of its fact, by its name."""
        return getattr(self, name) if name in ("score", "why", "fact") else self.fact[name]


class _Found(msgspec.Struct):
    fact: Fact
    words: float = 0.0
    match: Match | None = None
    similarity: float | None = None


def search(
    index: FactIndex,
    query: str,
    *,
    limit: int,
    at: int,
    filters: Mapping[str, Any],
    signals: Signals,
    superseded: bool = False,
    vector: bytes | None = None,
    embedder: str = "",
) -> list[Hit]:
    """The best facts for a query."""
    moment = to_datetime(at)
    found: dict[str, _Found] = {}
    # More than are asked for: what is found through an older wording, and signals, change the order.
    for each in islice(_by_words(index, query, moment, filters, superseded), max(2 * limit, _POOL if vector else 50)):
        known = found.setdefault(each.fact.id, each)
        if each.words > known.words:
            found[each.fact.id] = each
    if vector is not None:
        _add_by_vector(index, found, vector, embedder, at, filters)
    score = _scores(found, fused=vector is not None)
    scored = [(score(each) * _weight(each.fact, signals, moment), each) for each in found.values()]
    scored.sort(key=lambda pair: (-pair[0], -pair[1].fact.version))
    hits = [Hit(fact=each.fact, score=points, why=_why(index, each, signals)) for points, each in scored[:limit]]
    return (_with_successors(index, hits, filters) if superseded else hits)[:limit]


def _by_words(
    index: FactIndex, query: str, at: datetime, filters: Mapping[str, Any], superseded: bool
) -> Iterator[_Found]:
    """Facts by their words; a fact that holds no more stands for the successor that does."""
    seen = set[tuple[str, bool]]()
    for match in index.matches(query):
        fact, score = match.fact, match.score
        if not superseded:
            standing = _standing(index, fact, at)
            if standing is None:
                continue
            score *= 1.0 if standing is fact else _EARLIER_WORDING
            fact = standing
        place = (fact.id, fact is match.fact)
        if place not in seen and answers(fact, filters):
            seen.add(place)
            yield _Found(fact=fact, words=score, match=match)


def _standing(index: FactIndex, fact: Fact, at: datetime) -> Fact | None:
    """The fact at a time: itself, or what was in its place then; None where nothing was."""
    if fact.valid_from > at:
        return None
    found: Fact | None = fact
    while found is not None and not found.holds_at(at):
        found = None if found.superseded_by is None else index.get(found.superseded_by)
    return found


def _add_by_vector(
    index: FactIndex, found: dict[str, _Found], vector: bytes, embedder: str, at: int, filters: Mapping[str, Any]
) -> None:
    near = 0
    for similarity, number in sorted(similarities(vector, index.vectors(embedder, at)), reverse=True):
        fact = index.numbered(number)
        if not answers(fact, filters):
            continue
        found.setdefault(fact.id, _Found(fact=fact)).similarity = similarity
        near += 1
        if near == _POOL:
            return


def _scores(found: Mapping[str, _Found], *, fused: bool) -> Callable[[_Found], float]:
    words = [each.words for each in found.values()]
    if not fused:
        best = max(words, default=0.0)
        return lambda each: each.words / best if best else 0.0
    # Half and half, each from 0 to 1: ranks alone lose how much better the first is, and do worse than words alone.
    near = [each.similarity for each in found.values() if each.similarity is not None]
    by_words, by_vector = _min_max(words), _min_max(near)
    return lambda each: (by_words(each.words) + (0.0 if each.similarity is None else by_vector(each.similarity))) / 2


def _min_max(values: list[float]) -> Callable[[float], float]:
    low, high = min(values, default=0.0), max(values, default=0.0)
    return lambda value: (value - low) / (high - low) if high > low else float(value > 0)


def _weight(fact: Fact, signals: Signals, at: datetime) -> float:
    weight = 1.0
    if signals.recency:
        days = max((at - fact.valid_from).total_seconds() / 86_400, 0.0)
        weight += _RECENCY * 0.5 ** (days / _HALF_LIFE_DAYS)
    if signals.kind and fact.kind in _LASTING:
        weight += _KIND
    if signals.use:
        weight += _USE * min(math.log2(fact.mentions), 4.0)
    return weight


def _why(index: FactIndex, found: _Found, signals: Signals) -> tuple[str, ...]:
    why: list[str] = []
    if found.match is not None:
        words = ", ".join(index.words(found.match))
        earlier = found.match.fact.id != found.fact.id
        why.append(f"what it superseded has the words: {words}" if earlier else f"words: {words}")
    if found.similarity is not None:
        why.append(f"meaning: {found.similarity:.2f}")
    if signals.recency:
        why.append(f"valid from {found.fact.valid_from:%Y-%m-%d}")
    if signals.kind and found.fact.kind in _LASTING:
        why.append(f"a {found.fact.kind}")
    if signals.use and found.fact.mentions > 1:
        why.append(f"stated {found.fact.mentions} times")
    return tuple(why)


def _with_successors(index: FactIndex, hits: list[Hit], filters: Mapping[str, Any]) -> list[Hit]:
    """The hits with each successor above what it superseded, whether its own words answer or not."""
    ordered: dict[str, Hit] = {}
    own = {hit.id: hit for hit in hits}
    for hit in hits:
        for each in reversed(_line(index, hit)):
            if each.id not in ordered and answers(each.fact, filters):
                known = each if each is hit else own.get(each.id, each)
                ordered[each.id] = msgspec.structs.replace(known, score=max(known.score, hit.score))
    return list(ordered.values())


def _line(index: FactIndex, hit: Hit) -> list[Hit]:
    """A hit, and the facts that took its place one after the other."""
    line = [hit]
    while (successor := line[-1].fact.superseded_by) is not None and len(line) < _POOL:
        fact = index.get(successor)
        if fact is None:
            break
        line.append(Hit(fact=fact, score=hit.score, why=(f"took the place of {hit.id}",)))
    return line
