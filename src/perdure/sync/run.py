"""A run for synchronous code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from perdure.sync.driver import Driver

if TYPE_CHECKING:
    from perdure.core.steps import Step
    from perdure.runtime import run as runtime
    from perdure.runtime.blocks import Block
    from perdure.runtime.decisions import Decision
    from perdure.runtime.expecting import Deadline
    from perdure.runtime.options import Policy, Retry

    PathLike = str | tuple[Step, ...]

_ABSENT: Any = object()


class Bound:
    """A run with options for the calls that are made through it."""

    def __init__(self, bound: runtime.Bound, drive: Driver) -> None:
        self._bound = bound
        self._drive = drive

    def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Like `run.step`, with these options."""
        return self._drive(self._bound.step(name, fn, *args, **named))

    def tool(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Like `run.tool`, with these options."""
        return self._drive(self._bound.tool(name, fn, *args, **named))


class Run:
    """`perdure.Run` for synchronous code: steps and tools are plain functions, one after the other."""

    def __init__(self, run: runtime.Run, drive: Driver) -> None:
        self._run = run
        self._drive = drive

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._run.id

    @property
    def key(self) -> str | None:
        """The key it was started with."""
        return self._run.key

    @property
    def input(self) -> Any:
        """What it was given; a copy each time."""
        return self._run.input

    @property
    def resumed(self) -> bool:
        """Whether it began earlier."""
        return self._run.resumed

    @property
    def over(self) -> bool:
        """Whether it ended earlier: everything is read from the log."""
        return self._run.over

    @property
    def paused(self) -> bool:
        """Whether it waits for somebody."""
        return self._run.paused

    @property
    def idempotency_key(self) -> str | None:
        """The key of the tool or step that is being run: the same at every attempt."""
        return self._run.idempotency_key

    @property
    def result(self) -> Any:
        """What the run gives; set it in the block."""
        return self._run.result

    @result.setter
    def result(self, value: Any) -> None:
        self._run.result = value

    def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Call a function and record what it returns; after a crash the record is returned instead."""
        return self._drive(self._run.step(name, fn, *args, **named))

    def tool(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Call a function with effects outside: that it starts is recorded first, what it returned afterwards."""
        return self._drive(self._run.tool(name, fn, *args, **named))

    def options(
        self,
        *,
        retry: Retry | int | None = None,
        key: object = None,
        returns: Callable[..., Any] | None = None,
        repeatable: bool = False,
        unverified: Policy = "ask",
        require_approval: bool = False,
        approval_prompt: str | None = None,
        who: str | Sequence[str] | None = None,
        approvals: int = 1,
        remind: timedelta | float | None = None,
        escalate: Mapping[str, Any] | None = None,
        traceback: bool | None = None,
    ) -> Bound:
        """Say how the next step or tool is run. See `perdure.Run.options`.

        A synchronous one cannot be given a timeout, and is called where the caller is: every one blocks.
        """
        bound = self._run.options(
            retry=retry, key=key, returns=returns, repeatable=repeatable, unverified=unverified,
            require_approval=require_approval, approval_prompt=approval_prompt, who=who, traceback=traceback,
            approvals=approvals, remind=remind, escalate=escalate,
        )  # fmt: skip
        return Bound(bound, self._drive)

    def pause(
        self,
        name: str,
        *,
        ask: str,
        args: Mapping[str, Any] | None = None,
        expects: Any = None,
        who: str | Sequence[str] | None = None,
        deadline: Deadline | None = None,
        approvals: int = 1,
        remind: timedelta | float | None = None,
        escalate: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Ask a person, and let go of the thread until somebody decided; then the run goes on with the decision.

        `expects` is the answer that is asked for beside yes or no, `who` may give it, until the `deadline`; so many
        `approvals` it takes. See `perdure.Run.pause`.
        """
        return self._drive(
            self._run.pause(
                name, ask=ask, args=args, expects=expects, who=who, deadline=deadline, approvals=approvals,
                remind=remind, escalate=escalate,
            )
        )  # fmt: skip

    def model(self, fn: Callable[..., Any], messages: Sequence[Any], /, *, name: str = "model", **settings: Any) -> Any:
        """Ask a model: `fn(messages, **settings)`. The answer is recorded, and by `thread.seen` what the model saw."""
        return self._drive(self._run.model(fn, messages, name=name, **settings))

    def stream(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Iterator[Any]:
        """Give what an iterator gives, item by item; items are recorded as they come."""
        items = self._run.stream(name, fn, *args, **named)
        while (item := self._drive(_next(items))) is not _ABSENT:
            yield item

    def load(self, default: Any = _ABSENT, *, fresh: bool = False) -> Any:
        """The state; raise `NotFoundError` when there is none, unless a default is given. See `perdure.Run.load`."""
        loaded = self._run.load(fresh=fresh) if default is _ABSENT else self._run.load(default, fresh=fresh)
        return self._drive(loaded)

    def append(self, path: PathLike, *items: object, checkpoint: bool = False) -> int:
        """Append to a list in the state, once however often the run is resumed, and return the version."""
        return self._drive(self._run.append(path, *items, checkpoint=checkpoint))

    def update(
        self,
        *,
        set: Mapping[PathLike, object] | None = None,
        append: Mapping[PathLike, Sequence[object]] | None = None,
        delete: Sequence[PathLike] = (),
        checkpoint: bool = False,
    ) -> int:
        """Set, append and delete in one write, once however often the run is resumed, and return the version."""
        return self._drive(self._run.update(set=set, append=append, delete=delete, checkpoint=checkpoint))

    def save(
        self,
        state: object,
        *,
        kind: str = "manual",
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> int:
        """Make `state` the state, with a checkpoint, once however often the run is resumed; return the version."""
        return self._drive(self._run.save(state, kind=kind, status=status, note=note, metadata=metadata))

    def sleep(self, seconds: float | timedelta) -> None:
        """Wait, through restarts too: the time counts from the first call."""
        self._drive(self._run.sleep(seconds))

    def now(self) -> datetime:
        """The time, the same one after resuming."""
        return self._drive(self._run.now())

    def random(self) -> float:
        """A number from 0 up to 1, the same one after resuming."""
        return self._drive(self._run.random())

    def uuid(self) -> UUID:
        """A random UUID, the same one after resuming."""
        return self._drive(self._run.uuid())

    def signal(self, name: str) -> Any:
        """The value of the next signal of this name that was sent to the run; wait for it if need be."""
        return self._drive(self._run.signal(name))


class SyncBlock:
    """A run as a block of code: `with thread.run() as run:`."""

    def __init__(self, block: Block, drive: Driver) -> None:
        self._block = block
        self._drive = drive

    def __enter__(self) -> Run:
        return Run(self._drive(self._block.__aenter__()), self._drive)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._drive(self._block.__aexit__(kind, error, trace))


def run_of(run: Run) -> runtime.Run:
    """The run itself; for the faces that are built on it."""
    return run._run  # pyright: ignore[reportPrivateUsage]


async def _next(items: AsyncIterator[Any]) -> Any:
    return await anext(items, _ABSENT)
