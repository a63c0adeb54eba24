"""Asking Redis: in place for synchronous callers, on a thread of its own for asynchronous ones.

Its trouble is never the caller's: no retries, short timeouts, and after a failure it is left alone for a while. An
event loop of its own would measure those timeouts with everything else that the loop has to do: with 64 busy tasks
healthy servers seemed to hang. On a thread, one client also serves every event loop that comes and goes.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, TypeVar

from perdure.core.errors import InvalidInputError, MissingExtraError, StorageError
from perdure.core.ports import Telemetry
from perdure.storage.baton import Baton
from perdure.storage.hot.breaker import Breaker
from perdure.storage.ports import Answer, Worker

T = TypeVar("T")
Command = tuple[bytes | str | int, ...]
TIMEOUT = 0.05  # seconds for connecting, and for each answer


class WrongType(Exception):
    """The answer to a command whose key holds another kind of value than ours: somebody else wrote it."""


class RedisPort(Protocol):
    """Sends commands to Redis in one go."""

    async def run(self, commands: Sequence[Command]) -> list[Any] | None:
        """Their answers in order; None when Redis is not available. Never raises for Redis' trouble."""
        ...

    async def beside(self, work: Coroutine[Any, Any, T], commands: Sequence[Command]) -> tuple[T, list[Any] | None]:
        """The same while `work` is done, where that can be at once."""
        ...

    def close(self) -> None:
        """Let go of connections; later runs answer None."""
        ...


class Client:
    """A Redis that never raises."""

    def __init__(self, url: str, telemetry: Telemetry, timeout: float = TIMEOUT) -> None:
        self._redis = _connected(url, timeout)
        self._telemetry = telemetry
        self.breaker = Breaker()
        self._closed = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """How connections are made: timeouts, retries, database."""
        return self._redis.connection_pool.connection_kwargs

    def ask(self, commands: Sequence[Command]) -> list[Any] | None:
        """Run commands, unless Redis is being left alone."""
        if self._closed or not self.breaker.admits(time.monotonic()):
            return None
        try:
            answers = _answers(self._redis, commands)
        except Exception as exc:  # whatever it is, the storage has the truth
            self._failed(exc)
            return None
        except BaseException:
            self.breaker.failed(time.monotonic())  # an interrupted probe would be waited for, for ever
            raise
        if self.breaker.succeeded(time.monotonic()):
            self._telemetry.log("info", "the hot layer is used again")
        return answers

    def _failed(self, exc: Exception) -> None:
        opened = self.breaker.failed(time.monotonic())
        self._telemetry.count("perdure.hot.errors")
        if opened and not self._closed:
            reason = f"{type(exc).__name__}: {exc}"
            self._telemetry.log("warning", "the hot layer is left alone", error=reason, seconds=self.breaker.wait)

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        with suppress(Exception):  # nothing is promised at closing
            self._redis.close()


class InPlaceRedis:
    """Asks at once, on the caller's thread; threads that share a store go on meanwhile."""

    def __init__(self, client: Client, baton: Baton | None = None) -> None:
        self.client = client
        self._baton = baton or Baton()

    async def run(self, commands: Sequence[Command]) -> list[Any] | None:
        with self._baton.laid_down():
            return self.client.ask(commands)

    async def beside(self, work: Coroutine[Any, Any, T], commands: Sequence[Command]) -> tuple[T, list[Any] | None]:
        done = await work
        return done, await self.run(commands) if done is not None else None

    def close(self) -> None:
        self.client.close()


class WorkerRedis:
    """Asks on a thread, while the event loop goes on."""

    def __init__(self, client: Client, place: str) -> None:
        self.client = client
        self._worker = Worker(place)

    async def run(self, commands: Sequence[Command]) -> list[Any] | None:
        answer = self._asked(commands)
        return await answer.future if answer else None

    async def beside(self, work: Coroutine[Any, Any, T], commands: Sequence[Command]) -> tuple[T, list[Any] | None]:
        answer = self._asked(commands)
        try:
            done = await work
            return done, await answer.future if answer else None
        finally:
            if answer:
                answer.future.cancel()  # nobody waits for it any more

    def _asked(self, commands: Sequence[Command]) -> Answer | None:
        answer = Answer()
        try:
            self._worker.hand_over(lambda: self.client.ask(commands) if answer.wanted() else None, answer.settle)
        except StorageError:  # closed, or inherited through os.fork: the storage itself says so where it matters
            return None
        return answer

    def close(self) -> None:
        self._worker.close()
        self.client.close()


def open_redis(
    url: str,
    *,
    mode: Literal["sync", "async"],
    telemetry: Telemetry,
    baton: Baton | None = None,
    timeout: float = TIMEOUT,
) -> InPlaceRedis | WorkerRedis:
    """A port to the Redis at `redis://…`, `rediss://…` or `unix://…`; connects at its first use.

    Raises `MissingExtraError`, and `InvalidInputError` for an address that cannot be read.
    """
    client = Client(url, telemetry, timeout)
    return InPlaceRedis(client, baton) if mode == "sync" else WorkerRedis(client, "redis")


def _connected(url: str, timeout: float) -> Any:
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as exc:
        raise MissingExtraError("the hot layer", "redis") from exc
    try:
        return Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),  # the client's own are ten, and stall a caller for seconds
            health_check_interval=0,
        )
    except ValueError:
        # What exactly is wrong is not repeated: it may be a part of the password.
        raise InvalidInputError(
            "the hot layer's address must look like redis://user:password@host:6379/0, "
            "with special characters of the password percent-encoded"
        ) from None


def _answers(redis: Any, commands: Sequence[Command]) -> list[Any]:
    with redis.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)
        return [_answer(each) for each in pipeline.execute(raise_on_error=False)]


def _answer(answer: Any) -> Any:
    if not isinstance(answer, Exception):
        return answer
    if str(answer).startswith("WRONGTYPE"):
        return WrongType()
    raise answer  # read-only, out of memory, not allowed: nothing that the next command would do better
