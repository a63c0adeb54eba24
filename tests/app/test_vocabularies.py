"""Closed words and moments: every public call that takes one refuses what is none, with advice."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from perdure import Perdure, Retention, Triggers, sync
from perdure.core.refs import AtTime, parse, split
from perdure.core.times import moment
from perdure.core.vocabulary import nearest, one_of
from perdure.errors import InvalidFilterError, InvalidInputError, InvalidRefError

NAIVE = datetime(2026, 11, 1, 12)
HOW = r"datetime\.now\(UTC\)"
# What each public call needs beside the parameter that is looked at.
NEEDED: dict[str, tuple[Any, ...]] = {
    "start": ("h",), "resume": ("t",), "search": ("word",), "rerun": (), "operation": ("name",), "run": (),
    "allow": ("tool",),
}  # fmt: skip
NAMED: dict[str, dict[str, Any]] = {"start": {"thread": "t"}, "allow": {"by": "ann"}}


def taken(kind: type[Any]) -> list[tuple[Any, str, str]]:
    """The public methods of the faces with a parameter of a kind: the class, the method and the parameter."""
    faces: list[Any] = [Perdure, sync.Perdure]
    thread, sync_thread = _threads()
    found: list[tuple[Any, str, str]] = []
    for face in (*faces, thread, sync_thread):
        for name, method in inspect.getmembers(face, inspect.isfunction):
            if name.startswith("_") or name in ("open", "open_as"):
                continue
            for parameter in inspect.signature(method).parameters.values():
                words = str(parameter.annotation)
                if (kind is datetime and "datetime" in words) or (kind is str and words in _closed()):
                    found.append((face, name, parameter.name))
    return found


def _closed() -> set[str]:
    return {"Changed", "Effects", "Unfinished", "OnFailure", "UsageBy", "RunStatus"}


def _threads() -> tuple[type[Any], type[Any]]:
    from perdure.app.thread import Thread
    from perdure.sync.thread import Thread as SyncThread

    return Thread, SyncThread


async def called(face: Any, name: str, parameter: str, value: Any) -> Any:
    """Call a public method with a value for one parameter, on a store that has a thread."""
    is_sync = face.__module__.startswith("perdure.sync")
    options: dict[str, Any] = {**NAMED.get(name, {}), parameter: value}
    if is_sync:
        with sync.Perdure.open("memory://") as store:
            store.thread("t").save({})
            target = store if face is sync.Perdure else store.thread("t")
            made = getattr(target, name)(*NEEDED.get(name, ()), **options)
            with made if hasattr(made, "__enter__") else _Nothing():
                return made
    async with Perdure.open("memory://") as store:
        await store.thread("t").save({})
        target = store if face is Perdure else store.thread("t")
        made = getattr(target, name)(*NEEDED.get(name, ()), **options)
        if hasattr(made, "__aenter__"):
            async with made:
                return made
        return await made


class _Nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(("face", "name", "parameter"), taken(datetime))
async def test_a_naive_datetime_is_refused_wherever_a_moment_is_meant(face: Any, name: str, parameter: str) -> None:
    with pytest.raises(InvalidInputError, match=HOW) as refused:
        await called(face, name, parameter, NAIVE)
    assert str(refused.value).startswith(f"{parameter} must say its time zone")
    with pytest.raises(InvalidInputError, match=f"{parameter} must be a datetime"):
        await called(face, name, parameter, "2026-11-01T12:00Z")


@pytest.mark.parametrize(("face", "name", "parameter"), taken(str))
async def test_an_unknown_word_is_refused_wherever_words_are_closed(face: Any, name: str, parameter: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{parameter} must be "):
        await called(face, name, parameter, "nonsense")
    with pytest.raises(InvalidInputError, match=f"{parameter} must be "):
        await called(face, name, parameter, 7)


def test_the_public_calls_that_are_looked_at_are_those_that_there_are() -> None:
    moments = {(face.__module__.split(".")[1], name, parameter) for face, name, parameter in taken(datetime)}
    for layer in ("app", "sync"):
        assert {(name, parameter) for where, name, parameter in moments if where == layer} == {
            ("start", "at"), ("runs", "since"), ("usage", "since"), ("usage", "until"), ("history", "since"),
            ("history", "until"), ("allow", "expires"),
        }  # fmt: skip
    words = {(name, parameter) for _, name, parameter in taken(str)}
    assert words == {
        ("usage", "by"), ("resume", "changed"), ("run", "changed"), ("run", "unfinished"), ("rerun", "effects"),
        ("operation", "on_failure"),
    }  # fmt: skip


async def test_the_status_of_runs_is_one_of_those_that_there_are() -> None:
    """A typing mistake is no empty list."""
    async with Perdure.open("memory://") as store:
        with pytest.raises(InvalidFilterError, match=r"status must be .*\"dead\".* did you mean 'finished'"):
            await store.runs(status="finishd")
        with pytest.raises(InvalidFilterError):
            await store.scope(user="ann").runs(status="done")
        with pytest.raises(InvalidFilterError, match=HOW):
            await store.thread("t").messages(since=NAIVE)
        with pytest.raises(InvalidInputError, match=HOW):
            async with store.thread("t").run() as run:
                await run.pause("ok", ask="ok?", deadline=NAIVE)
    for refused, near in (
        (lambda: Triggers(strategy="hybird"), "hybrid"),  # type: ignore[arg-type]
        (lambda: Retention(per="tread"), "thread"),  # type: ignore[arg-type]
        (lambda: Perdure.open("memory://", migrate="chekc"), "check"),  # type: ignore[arg-type]
        (lambda: Perdure.open("memory://", durability="ful"), "full"),  # type: ignore[typeddict-item]
        (lambda: Perdure.open("memory://", user_id_type="bigin"), "bigint"),  # type: ignore[typeddict-item]
    ):
        with pytest.raises(InvalidInputError, match=f"did you mean '{near}'"):
            refused()


def test_refs_name_their_time_zone() -> None:
    assert parse("@2026-11-01T12:00Z") == AtTime(moment(NAIVE.replace(tzinfo=UTC), "at"))
    for ref in ("@2026-11-01T12:00", "2026-11-01"):
        with pytest.raises(InvalidRefError, match=r"does not say its time zone; write @2026-11-01T..:00:00Z for UTC"):
            parse(ref)
    with pytest.raises(InvalidRefError, match="time zone"):
        split("ticket@2026-11-01T12:00")
    assert split("report@2026-11-01") == ("report@2026-11-01", None)  # ids end in dates


def test_moments_at_the_ends_of_time() -> None:
    assert moment(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "at") == 0
    for at in (datetime.max.replace(tzinfo=timezone(-timedelta(hours=23))), datetime.min.replace(tzinfo=UTC)):
        assert isinstance(moment(at, "at"), int)

    class Odd(tzinfo):
        def utcoffset(self, at: Any) -> Any:
            return 7

    with pytest.raises(InvalidFilterError, match="at must be a datetime that can be written in UTC"):
        moment(NAIVE.replace(tzinfo=Odd()), "at")


def test_the_nearest_word_is_found_in_whatever_case() -> None:
    assert nearest("FINISHED", ["finished", "failed"]) == "finished"
    assert nearest("x" * 100_000, ["finished"]) is None
    assert nearest(7, ["finished"]) is None
    assert one_of("a", ("a", "b"), "letter") == "a"
    with pytest.raises(InvalidFilterError, match=r"letter must be \"a\" or \"b\", not 'c'$"):
        one_of("c", ("a", "b"), "letter")
