"""What models cost: tokens, calls and retries that were counted, and money by a table of prices.

Money is exact (`Decimal`). It is None where it is not known, because a model has no price or a provider gave no
numbers: a sum that silently counts these as 0 would be believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple, overload

import msgspec

from perdure.core.calls import Answered
from perdure.core.errors import InvalidInputError, short_repr
from perdure.core.verification import Damage
from perdure.core.vocabulary import suggestion

UsageBy = Literal["run", "thread", "user", "agent", "model", "day"]
USAGE_BY = ("run", "thread", "user", "agent", "model", "day")
_MILLION = 1_000_000
_KINDS_OF_PRICE = ("input", "output", "cached")


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a million tokens of a model cost."""

    input: Decimal
    output: Decimal
    cached: Decimal  # of the input, what the provider had cached

    def of(self, answered: Answered) -> Decimal | None:
        """What an answer cost; None where nobody counted its tokens."""
        tokens = answered.tokens
        if tokens is None:
            return None
        fresh = tokens.input - tokens.cached
        return (fresh * self.input + tokens.cached * self.cached + tokens.output * self.output) / _MILLION


class Prices:
    """A table of prices by model."""

    def __init__(self, table: Mapping[str, Price]) -> None:
        self._table = dict(table)

    def __bool__(self) -> bool:
        return bool(self._table)

    def of(self, model: str) -> Price | None:
        """The price of a model: by its whole name, else by its name without the provider before it."""
        return self._table.get(model) or self._table.get(model.partition(":")[2])


NO_PRICES = Prices({})


def prices_of(table: object) -> Prices:
    """A table as it was given, `{"gpt-4o-mini": {"input": 0.15, "output": 0.6}}`; raise `InvalidInputError`."""
    if isinstance(table, Prices):
        return table
    if table is None:
        return NO_PRICES
    if not isinstance(table, Mapping):
        raise InvalidInputError(f"prices must be a mapping of models to their prices, not {short_repr(table)}")
    given: Mapping[Any, Any] = table
    return Prices({_model(name): _price(name, price) for name, price in given.items()})


def _model(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"prices must name models, not {short_repr(name)}")
    return name


def _price(model: str, price: Any) -> Price:
    where = f"prices[{model!r}]"
    if not isinstance(price, Mapping):
        raise InvalidInputError(
            f'{where} must be {{"input": …, "output": …}} per million tokens, not {short_repr(price)}'
        )
    given: Mapping[Any, Any] = price
    for name in given:
        if name not in _KINDS_OF_PRICE:
            raise InvalidInputError(f"{where} has an unknown key {short_repr(name)}{suggestion(name, _KINDS_OF_PRICE)}")
    missing = [name for name in ("input", "output") if name not in given]
    if missing:
        raise InvalidInputError(f"{where} has no {missing[0]!r}: give the price of a million tokens")
    read = {name: _amount(f"{where}[{name!r}]", each) for name, each in given.items()}
    return Price(input=read["input"], output=read["output"], cached=read.get("cached", read["input"]))


def _amount(where: str, amount: object) -> Decimal:
    try:
        # A float as it is written: Decimal(0.15) is another number than 0.15.
        read = Decimal(str(amount)) if type(amount) in (int, float, str, Decimal) else None
    except InvalidOperation:
        read = None
    if read is None or not read.is_finite() or read < 0:
        raise InvalidInputError(
            f"{where} must be a number from 0 on, the price of a million tokens, not {short_repr(amount)}"
        )
    return read


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one run, thread, user, agent, model or day used."""

    name: str | int | None  # the id of the run or thread, the user, agent, model, or day; None where there is none
    user: str | int | None = None  # whose run or thread it is
    thread: str | None = None  # of a run
    calls: int = 0  # answers of models
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of the input
    retries: int = 0  # attempts of steps, tools and runs that failed and were made again
    seconds: float = 0.0  # that models took to answer
    uncounted: int = 0  # calls whose provider gave no number of tokens
    money: Decimal | None = None  # None: not known, see `unpriced` and `uncounted`
    money_at_least: Decimal = Decimal(0)  # of the calls whose price is known
    unpriced: tuple[str, ...] = ()  # models without a price

    @property
    def total_tokens(self) -> int:
        """Input and output."""
        return self.input_tokens + self.output_tokens


class UsageReport(Sequence[UsageRow]):
    """The rows of `store.usage()`: those that used most come first, days in their order."""

    def __init__(
        self, by: UsageBy, rows: Sequence[UsageRow], total: UsageRow, *, skipped: Sequence[Damage] = (), pruned: int = 0
    ) -> None:
        self.by: UsageBy = by
        self.rows = tuple(rows)
        self.total = total
        self.skipped = tuple(skipped)  # damaged threads, of which nothing is counted
        self.pruned = pruned  # calls and failures whose entry was pruned: they are not counted

    @overload
    def __getitem__(self, at: int) -> UsageRow: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[UsageRow]: ...
    def __getitem__(self, at: int | slice) -> UsageRow | Sequence[UsageRow]:
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[UsageRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"UsageReport(by={self.by!r}, rows={len(self.rows)}, calls={self.total.calls})"

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Models that were asked and have no price."""
        return self.total.unpriced


class Use(NamedTuple):
    """A call of a model, or a retry, as the log of a thread tells it."""

    run: str
    agent: str | None
    day: date
    answered: Answered | None  # None: a retry


class Place(NamedTuple):
    """The thread that a use is in."""

    thread: str
    user: str | int | None


class _Sum:
    """Adds up one row."""

    def __init__(self) -> None:
        self.calls = self.input = self.output = self.cached = self.retries = self.took = self.uncounted = 0
        self.money = Decimal(0)
        self.unpriced: set[str] = set()

    def add(self, use: Use, prices: Prices) -> None:
        answered = use.answered
        if answered is None:
            self.retries += 1
            return
        self.calls += 1
        self.took += answered.took
        if answered.tokens is None:
            self.uncounted += 1
        else:
            self.input += answered.tokens.input
            self.output += answered.tokens.output
            self.cached += answered.tokens.cached
        price = prices.of(answered.model)
        if price is None:
            self.unpriced.add(answered.model)
        else:
            self.money += price.of(answered) or 0

    def row(self, name: str | int | None, user: str | int | None = None, thread: str | None = None) -> UsageRow:
        known = not self.unpriced and not self.uncounted
        return UsageRow(
            name=name, user=user, thread=thread, calls=self.calls, input_tokens=self.input, output_tokens=self.output,
            cached_tokens=self.cached, retries=self.retries, seconds=self.took / 1e6, uncounted=self.uncounted,
            money=self.money if known else None, money_at_least=self.money, unpriced=tuple(sorted(self.unpriced)),
        )  # fmt: skip


class UsageSum:
    """Adds up uses by what they are grouped by."""

    def __init__(self, by: UsageBy, prices: Prices) -> None:
        self._by: UsageBy = by
        self._prices = prices
        self._sums: dict[tuple[Any, ...], _Sum] = {}
        self._total = _Sum()

    def add(self, place: Place, uses: Sequence[Use]) -> None:
        """Add what happened in a thread."""
        for use in uses:
            group = self._group(place, use)
            if group is not None:
                self._sums.setdefault(group, _Sum()).add(use, self._prices)
            self._total.add(use, self._prices)

    def _group(self, place: Place, use: Use) -> tuple[Any, ...] | None:
        """Name, user and thread of the row; None for a retry where rows are models: it is no model's."""
        if self._by == "run":
            return use.run, place.user, place.thread
        if self._by == "thread":
            return place.thread, place.user
        if self._by == "user":
            return (place.user,)
        if self._by == "agent":
            return (use.agent,)
        if self._by == "day":
            return (use.day.isoformat(),)
        return None if use.answered is None else (use.answered.model or None,)

    def report(self, skipped: Sequence[Damage], pruned: int) -> UsageReport:
        """What it comes to."""
        rows = [one.row(*group) for group, one in self._sums.items()]
        if self._by == "day":
            rows.sort(key=lambda row: str(row.name))
        else:
            rows.sort(key=lambda row: (-row.total_tokens, -row.calls, str(row.name)))
        return UsageReport(self._by, rows, self._total.row(None), skipped=skipped, pruned=pruned)
