"""What becomes of a delivery: the rules for answers and waits."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from perdure.core.webhooks import Webhook

Outcome = Literal["delivered", "retry", "given up"]

_ROUND, _LONGEST_ROUND = 60.0, 3600.0  # seconds between two rounds of attempts
_SECONDS = re.compile(r"[0-9]{1,9}")


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt ended; true when it was delivered."""

    outcome: Outcome
    reason: str = ""  # for people; holds nothing secret
    status: int | None = None  # of the answer, where there was one
    asked: float | None = None  # seconds that the receiver asked to be left alone, at most `longest_wait`

    def __bool__(self) -> bool:
        return self.outcome == "delivered"


def next_try(webhook: Webhook, attempt: int, asked: float | None = None) -> float | None:
    """Seconds to wait after this many failed attempts; None when there are no more.

    `asked` is what the receiver asked for: it lengthens the wait, up to `longest_wait`.
    """
    if attempt >= webhook.attempts:
        return None
    doubled = webhook.first_wait * 2.0 ** min(max(attempt - 1, 0), 64)  # beyond that a float would overflow
    return min(max(doubled, asked or 0.0), webhook.longest_wait)


def wait_after(webhook: Webhook, attempt: int, asked: float | None = None) -> float:
    """Seconds to wait after this many failed attempts, for as long as the question is open.

    A round of `attempts` comes quickly, as `next_try` says; then the next round is waited for, longer each time.
    """
    within = next_try(webhook, attempt % webhook.attempts, asked) if attempt % webhook.attempts else None
    rounds = attempt // webhook.attempts
    return min(_ROUND * 2.0 ** min(rounds - 1, 16), _LONGEST_ROUND) if within is None else within


def answered(webhook: Webhook, status: int, retry_after: str | None, now: int) -> Sent:
    """What an answer means. `now` is in microseconds."""
    if 200 <= status < 300:
        return Sent(outcome="delivered", status=status)
    said = f"{webhook.place} answered {status}"
    if status == 410:
        return Sent(outcome="given up", reason=f"{said}: it wants no more", status=status)
    if 300 <= status < 400:
        said += ": redirects are not followed; name the address that it leads to"
    return Sent(outcome="retry", reason=said, status=status, asked=_asked(webhook, retry_after, now))


def unanswered(webhook: Webhook, reason: str) -> Sent:
    """There was no answer."""
    return Sent(outcome="retry", reason=f"{webhook.place}: {reason}")


def refused(webhook: Webhook, reason: str) -> Sent:
    """Nothing was sent, and nothing will be."""
    return Sent(outcome="given up", reason=f"{webhook.place}: {reason}")


def _asked(webhook: Webhook, text: str | None, now: int) -> float | None:
    seconds = _seconds(text.strip(), now) if text else None
    return None if seconds is None else min(max(seconds, 0.0), webhook.longest_wait)


def _seconds(text: str, now: int) -> float | None:
    """Retry-After: a number of seconds, or a date."""
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    from perdure.core.times import to_micros

    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
        # "-0000" says that the sender knows of no zone: RFC 9110 wants GMT.
        return (to_micros(at if at.tzinfo else at.replace(tzinfo=UTC)) - now) / 1e6
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
