"""Links with which a person decides without an account; the key that signs them lives in the storage."""

from __future__ import annotations

from datetime import timedelta

from perdure.core.approvers import Approver
from perdure.core.errors import InvalidInputError
from perdure.core.links import Link, make, read
from perdure.runtime.answering import Answers, View
from perdure.runtime.leases import SECOND
from perdure.runtime.runtime import Runtime


class Links:
    """Makes and reads tokens."""

    def __init__(self, runtime: Runtime, answers: Answers) -> None:
        self._runtime = runtime
        self._answers = answers

    async def make(self, view: View, pause: str, by: Approver, expires: timedelta) -> str:
        """A token about a pause that is open, for somebody who may decide about it."""
        seconds = expires.total_seconds() if isinstance(expires, timedelta) else 0.0  # pyright: ignore
        if not seconds > 0:
            raise InvalidInputError(f"a link expires after a timedelta, not {expires!r}")
        asked = await self._answers.standing(view, pause, by)
        until = self._runtime.clock.now() + int(seconds * SECOND)
        return make(await key_of_links(self._runtime), pause, asked, until, by.name, groups=by.groups)

    async def read(self, token: str) -> Link:
        """What a token says; raise `LinkInvalidError`, `LinkExpiredError`."""
        return read(await key_of_links(self._runtime), token, self._runtime.clock.now())


async def key_of_links(runtime: Runtime) -> bytes:
    """The key of this storage, made at the first use."""
    return await runtime.storage.keep("links.key", runtime.randomness.bytes(32))
