"""`human_in_the_loop` and `notifications`: who is asked, about what, and who is told."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from perdure.app.config.reading import Section
from perdure.core.approvals import Approvals
from perdure.core.webhooks import Webhook


def read_approvals(root: Section) -> Approvals:
    """Which tools need a person; none where it is not enabled."""
    loop = root.section("human_in_the_loop", leaf=False)
    enabled = loop.flag("enabled", True)
    needed, trusted = loop.texts("require_approval_for"), loop.texts("trusted_operations")
    limits = Approvals(
        timeout=loop.seconds("approval_timeout_seconds", None), auto_reject=loop.flag("auto_reject_on_timeout", True)
    )
    loop.close()
    named = loop.made(
        lambda: replace(limits, require_approval_for=needed, trusted_operations=trusted), limits,
        loop.place_of("trusted_operations"),
    )  # fmt: skip
    return named if enabled else Approvals()


def read_webhooks(root: Section) -> tuple[Webhook, ...]:
    """The addresses that are told."""
    found = [_webhook(each) for each in root.sections("notifications")]
    return tuple(each for each in found if each is not None)


def _webhook(section: Section) -> Webhook | None:
    url = section.text("url")
    retry = section.section("retry", leaf=False)
    attempts = retry.count("attempts", 3)
    first, longest = retry.seconds("initial", 1.0), retry.seconds("max", 30.0)
    if longest < first:
        retry.page.problem(retry.place, f"max is {longest:g}, shorter than initial, which is {first:g}")
    retry.close()
    rest: dict[str, Any] = {name: section.text(name) for name in ("secret", "template", "link")}
    rest["headers"] = section.pairs("headers")
    rest["timeout"] = section.seconds("timeout", 10.0)
    rest["allow_private"] = section.flag("allow_private", True)
    section.close()
    if not section.has("url"):
        section.page.problem(section.place, "a url is missing: every notification needs one")
    if url is None:
        return None
    return section.made(
        lambda: Webhook(url=url, attempts=attempts, first_wait=first, longest_wait=longest, **rest), None,
        section.place_of("url"),
    )  # fmt: skip
