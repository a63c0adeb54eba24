"""Addresses of webhooks that a user names: none of them is reached, none makes a request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from perdure.core.webhooks import Webhook
from perdure.runtime.sending import Sender
from tests.hostile.canary import Canary
from tests.hostile.catalogue import Hostile, register
from tests.hostile.judge import Judge
from tests.hostile.test_webhook_addresses import HOSTS, NO_ADDRESSES, NOTICE, NOW
from tests.hostile.trials import TRIALS, Trial
from tests.runtime.receiver import OK, receiving

register("webhooks", [*(f"http://{host}:PORT/" for host in HOSTS), *NO_ADDRESSES])


async def _play(judge: Judge, canary: Canary, kind: str, chosen: Sequence[Hostile], folder: Path) -> None:
    with receiving(OK, host="0.0.0.0") as here:
        for each in chosen:
            url = each.value.replace("PORT", str(here.port))

            async def send(url: str = url) -> object:
                hook = Webhook(url, allow_private=False, timeout=20)
                return await asyncio.to_thread(Sender().send_now, hook, NOTICE, now=NOW)

            await judge.call(str(each), send)
            judge.broken(str(each), [f"a request arrived: {request!r:.200}" for request in here.requests])
            here.requests.clear()


TRIALS.append(Trial(category="webhooks", backends=("anywhere",), play=_play))
