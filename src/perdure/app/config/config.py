"""`config.yaml` in Hector's words: what it means, as one value."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from perdure.app.config.notifications import read_approvals, read_webhooks
from perdure.app.config.places import parse_page, read_bytes
from perdure.app.config.reading import Section
from perdure.app.config.sessions import read_sessions
from perdure.app.config.trust import Trust, check_discovered, needs_trust
from perdure.app.config.trusted_files import TrustedFiles
from perdure.core.addresses import redact_url
from perdure.core.approvals import Approvals
from perdure.core.errors import PausesExpireWarning
from perdure.core.recovery_policy import RecoveryPolicy
from perdure.core.triggers import STRATEGIES, Triggers
from perdure.core.webhooks import Webhook


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a `config.yaml` says: where threads are kept, and how runs behave."""

    url: str
    options: dict[str, Any]  # of `open`, for this storage
    triggers: Triggers
    recovery: RecoveryPolicy
    approvals: Approvals
    webhooks: tuple[Webhook, ...]

    def __repr__(self) -> str:
        """Without what may be a password."""
        rest = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in ("url", "options"))
        return f"Config(url={redact_url(self.url)!r}, options={sorted(self.options)!r}, {', '.join(rest)})"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file that the caller named; raise `InvalidConfigError` naming everything that is wrong with it."""
        return cls._read(os.fspath(path), read_bytes(path), None, Trust.NAMED)

    @classmethod
    def load_discovered(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file that nobody named, such as one in the working folder.

        It may say where a local store below the working folder is, and options; anything else is an
        `InvalidConfigError`, unless the person trusted this file as it is (`perdure config trust`).
        """
        data = read_bytes(path)  # once: the bytes that are trusted are those that are read
        trust = Trust.NAMED if TrustedFiles().has(path, data) else Trust.DISCOVERED
        return cls._read(os.fspath(path), data, None, trust)

    @classmethod
    def trust(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file, and record that this person trusts it as it is now: `load_discovered` then takes all of it."""
        data = read_bytes(path)
        config = cls._read(os.fspath(path), data, None, Trust.NAMED)
        TrustedFiles().add(path, data)
        return config

    @classmethod
    def parse(cls, text: str, path: str = "config.yaml", environment: Mapping[str, str] | None = None) -> Config:
        """The same as `load` for a text; `path` is how messages call it."""
        return cls._read(path, text.encode("utf-8", "surrogatepass"), environment, Trust.NAMED)

    @classmethod
    def _read(cls, path: str, data: bytes, environment: Mapping[str, str] | None, trust: Trust) -> Config:
        if trust is Trust.NAMED:
            page, tree = parse_page(path, data, environment)
            return read_config(Section(page, tree))
        page, tree = parse_page(path, data, no_variables=f"a ${{VARIABLE}} {needs_trust(path)}")
        root = Section(page, tree)
        return read_config(root, lambda url: check_discovered(page, tree, root.asked, url, os.getcwd()))

    def opened(self, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The address and all options for `open`; those that are given win."""
        mine = {"checkpoints": self.triggers, "recovery": self.recovery, "approvals": self.approvals,
                "webhooks": self.webhooks}  # fmt: skip
        return self.url, {**self.options, **mine, **options}


def read_config(root: Section, check_trust: Callable[[str], None] = lambda url: None) -> Config:
    """The whole file; raise `InvalidConfigError`. `check_trust` is given the address, and adds to what is wrong."""
    storage = root.section("storage", leaf=False)
    url, options = read_sessions(storage)
    checkpoint = storage.section("checkpoint", leaf=False)
    triggers, recovery = _triggers(checkpoint), _recovery(checkpoint)
    checkpoint.close()
    storage.close()
    approvals, webhooks = read_approvals(root), read_webhooks(root)
    root.close()
    check_trust(url)
    root.page.check()
    if recovery.timeout is not None:
        _warn(root.page.path, recovery.timeout)
    return Config(
        url=url, options=options, triggers=triggers, recovery=recovery, approvals=approvals, webhooks=webhooks
    )


def _triggers(checkpoint: Section) -> Triggers:
    every = checkpoint.seconds("every", None)
    return Triggers(
        enabled=checkpoint.flag("enabled", True), strategy=checkpoint.choice("strategy", STRATEGIES),
        interval=checkpoint.count("interval", 5), after_tools=checkpoint.flag("after_tools", False),
        before_llm=checkpoint.flag("before_llm", False), every=None if every is None else timedelta(seconds=every),
    )  # fmt: skip


def _recovery(checkpoint: Section) -> RecoveryPolicy:
    recovery = checkpoint.section("recovery", leaf=False)
    policy = RecoveryPolicy(
        auto_resume=recovery.flag("auto_resume", True), auto_resume_hitl=recovery.flag("auto_resume_hitl", False),
        timeout=recovery.seconds("timeout", None),
    )  # fmt: skip
    recovery.close()
    return policy


def _warn(path: str, timeout: float) -> None:
    text = (
        f"{path}: storage.checkpoint.recovery.timeout lets pauses expire after {timeout:g} s; by default they wait for "
        "as long as it takes. Leave it out if that is what you want"
    )
    warnings.warn(text, PausesExpireWarning, stacklevel=5)
