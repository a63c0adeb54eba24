"""Asking Redis: in place for synchronous callers, on a thread of its own for asynchronous ones.

Its trouble is never the caller's: no retries, short timeouts, and after a failure it is left alone for a while. An
event loop of its own would measure those timeouts with everything else that the loop has to do: with 64 busy tasks
healthy servers seemed to hang. On a thread, one client also serves every event loop that comes and goes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, TypeVar

from perdure.core.errors import StorageError
from perdure.core.extras import check_releases, missing
from perdure.core.ports import Telemetry
from perdure.storage.baton import Baton
from perdure.storage.hot.address import check_address, unusable
from perdure.storage.hot.breaker import Breaker
from perdure.storage.hot.pipe import Command, Pipe
from perdure.storage.ports import Answer, Worker

T = TypeVar("T")
Then = Callable[[list[Any] | None], Sequence[Command]]  # what the answers to some commands call for
TIMEOUT = 0.05  # seconds for connecting, and for each answer
_UNANSWERED = 256  # sendings after which the next one waits for its answers
_PIPED = 256 << 10  # bytes: what is larger could fill the socket, and hold up the event loop


class WrongType(Exception):
    """The answer to a command whose key holds another kind of value than ours: somebody else wrote it."""


class RedisPort(Protocol):
    """Sends commands to Redis in one go."""

    async def run(self, commands: Sequence[Command]) -> list[Any] | None:
        """Their answers in order; None when Redis is not available. Never raises for Redis' trouble."""
        ...

    async def send(self, commands: Sequence[Command], then: Then) -> None:
        """The same without waiting for the answers, where that can be; `then` tells what to send after them."""
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
        self._pipe: Pipe | None = None
        # One thread writes to it while another reads: over TLS the two would be in each other's way.
        self._pipes = not url.startswith("rediss:")
        self._closed = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """How connections are made: timeouts, retries, database."""
        return self._redis.connection_pool.connection_kwargs

    def ask(self, commands: Sequence[Command]) -> list[Any] | None:
        """Run commands, unless Redis is being left alone."""
        if self._closed or not self.breaker.admits(time.monotonic()):
            return None
        return self._heard(lambda: _answers(self._redis, commands))

    def put(self, commands: Sequence[Command]) -> Pipe | None:
        """Send commands at once, and return where their answers will come out; None when that cannot be now."""
        pipe = self._pipe
        if pipe is None or self._closed or self.breaker.state != "closed" or _weight(commands) > _PIPED:
            return None
        sent = self._heard(lambda: pipe.put(commands))
        if not sent:
            self._pipe = None
            pipe.close()
        return pipe if sent else None

    def take(self, pipe: Pipe, count: int) -> list[Any] | None:
        """The answers to commands that were put."""
        answers = self._heard(lambda: [_answer(each) for each in pipe.take(count)])
        if answers is None:
            self._pipe = None
            pipe.close()
        return answers

    def lay_pipe(self) -> None:
        """Have a connection for those who do not wait, from the next time on."""
        if self._pipes and self._pipe is None and not self._closed and self.breaker.state == "closed":
            self._pipe = self._heard(lambda: Pipe(self._redis.connection_pool))

    def _heard(self, work: Callable[[], T]) -> T | None:
        """What came of some work with Redis; None when it failed, which the breaker is told."""
        try:
            answers = work()
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

    async def send(self, commands: Sequence[Command], then: Then) -> None:
        after = then(await self.run(commands))
        if after:
            await self.run(after)

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
        self._lock = threading.Lock()
        self._unanswered = 0

    async def run(self, commands: Sequence[Command]) -> list[Any] | None:
        answer = self._asked(lambda: self.client.ask(commands))
        return await answer.future if answer else None

    async def send(self, commands: Sequence[Command], then: Then) -> None:
        with self._lock:  # answers are read in the order in which commands were put
            pipe = self.client.put(commands)
            if pipe is not None and self._unanswered < _UNANSWERED:
                with suppress(StorageError):
                    self._worker.hand_over(lambda: self._finish(pipe, commands, then), _nobody)
                    self._unanswered += 1
                return
            answer = self._asked(lambda: self._finished(pipe, commands, then))
        if answer:
            await answer.future

    def _finish(self, pipe: Pipe, commands: Sequence[Command], then: Then) -> None:
        self._finished(pipe, commands, then)
        with self._lock:
            self._unanswered -= 1

    def _finished(self, pipe: Pipe | None, commands: Sequence[Command], then: Then) -> None:
        """Read the answers (where nothing was sent yet, ask), and send what they call for."""
        answers = self.client.take(pipe, len(commands)) if pipe else self.client.ask(commands)
        after = then(answers)
        if after:
            self.client.ask(after)
        self.client.lay_pipe()

    async def beside(self, work: Coroutine[Any, Any, T], commands: Sequence[Command]) -> tuple[T, list[Any] | None]:
        answer = self._asked(lambda: self.client.ask(commands))
        try:
            done = await work
            return done, await answer.future if answer else None
        finally:
            if answer:
                answer.future.cancel()  # nobody waits for it any more

    def _asked(self, work: Callable[[], Any]) -> Answer | None:
        answer = Answer()
        try:
            self._worker.hand_over(lambda: work() if answer.wanted() else None, answer.settle)
        except StorageError:  # closed, or inherited through os.fork: the storage itself says so where it matters
            return None
        return answer

    def close(self) -> None:
        self._worker.close()
        self.client.close()


def together(commands: list[Command]) -> list[Command]:
    """All or nothing: a connection that breaks half-way must not leave a key that never expires."""
    return [("MULTI",), *commands, ("EXEC",)]


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
        raise missing("the hot layer", "redis") from exc
    check_releases("the hot layer", "redis")

    def made(url: str) -> Any:
        retry = Retry(NoBackoff(), 0)  # the client's own are ten, and stall a caller for seconds
        limits = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "health_check_interval": 0}
        redis = Redis.from_url(url, retry=retry, **limits)
        pool = redis.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # does not connect, but says what it could not be made with
        return redis

    check_address(url)
    try:
        return made(url)
    except Exception:
        raise unusable(url, made) from None


def _nobody(value: Any, error: BaseException | None) -> None:
    """Nobody waits."""


def _weight(commands: Sequence[Command]) -> int:
    return sum(len(part) for command in commands for part in command if isinstance(part, bytes))


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
