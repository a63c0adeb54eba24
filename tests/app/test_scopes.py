"""One thread means nobody's unless a user is named; a scope sees what is its own and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import ANY_USER, sync
from perdure.app.scope import ApproverScope, UserScope
from perdure.errors import (
    AmbiguousThreadError,
    InvalidInputError,
    LinkInvalidError,
    NotAllowedError,
    NotFoundError,
)
from tests.app.isolation import bare, register
from tests.checkpoints.places import PLACES, opened

# What only the operator of a store may do: none of it is about one user.
OPERATORS = {
    "agent", "close", "compact", "compacting", "damaged", "decide_by_link", "drop_views", "flush", "forgotten",
    "from_config", "handler", "link", "linked", "open", "open_as", "recover", "refresh_views", "repair", "restored",
    "scope", "setup", "sizes", "stalled", "trust", "trust_file", "warm", "worker",
}  # fmt: skip


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=list(PLACES))
async def store(request: pytest.FixtureRequest, mode: str, tmp_path: Path) -> AsyncIterator[Any]:
    """Alice has a thread `c` with a secret and an open question; nobody else has any."""
    async with opened(PLACES[request.param](tmp_path), mode) as made:
        register(made, mode)
        await made.thread("c", user="alice").append("messages", {"role": "user", "content": "secret"})
        await made.start("ask", {"ask": "secret?", "who": None}, thread="c", user="alice")
        await made.recover()
        yield made


Call = Callable[[Any, str, Path], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "load": lambda store, pause, path: store.thread("c").load(),
    "load at a ref": lambda store, pause, path: store.thread("c").load("@1"),
    "info": lambda store, pause, path: store.thread("c").info(),
    "timeline": lambda store, pause, path: store.thread("c").timeline(),
    "fork": lambda store, pause, path: store.thread("c").fork(to="mine"),
    "rewind": lambda store, pause, path: store.thread("c").rewind("@1"),
    "tag": lambda store, pause, path: store.thread("c").tag("@1", "mine"),
    "resume": lambda store, pause, path: store.resume("c"),
    "cancel": lambda store, pause, path: store.cancel("c"),
    "signal": lambda store, pause, path: store.signal("c", "go", 1),
    "why": lambda store, pause, path: store.why("c"),
    "export": lambda store, pause, path: store.export("c", path / "c.perdure"),
    "compare": lambda store, pause, path: store.compare("c@1", "c@-1"),
    "decide": lambda store, pause, path: store.decide(pause, approved=True, by="eve"),
    "link": lambda store, pause, path: store.link(pause, by="eve"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_without_a_user_somebodys_thread_looks_absent(store: Any, tmp_path: Path, name: str) -> None:
    (pause,) = await store.pauses()
    with pytest.raises(NotFoundError) as caught:
        await CALLS[name](store, pause.id, tmp_path)
    assert "alice" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert await store.thread("c").load(default=None) is None
    assert await store.thread("c").messages() == []
    assert await store.pauses("c") == []
    assert len((await store.thread("c", user="alice").load())["messages"]) == 1


async def test_a_write_without_a_user_makes_a_thread_of_nobody(store: Any) -> None:
    await store.thread("c").append("messages", {"role": "user", "content": "mine"})
    assert len(await store.threads()) == 2
    assert (await store.thread("c").load())["messages"] == [{"role": "user", "content": "mine"}]
    assert (await store.thread("c", user="alice").load())["messages"] == [{"role": "user", "content": "secret"}]


async def test_trusted_code_gets_the_only_match_or_is_told_of_several(store: Any) -> None:
    assert (await store.thread("c", user=ANY_USER).load())["messages"][0]["content"] == "secret"
    await store.thread("c", user="bob").append("messages", "x")
    with pytest.raises(AmbiguousThreadError, match=r"'alice', 'bob'.*user=") as caught:
        await store.thread("c", user=ANY_USER).load()
    assert caught.value.users == ("alice", "bob")


async def test_a_pause_says_itself_whose_it_is(store: Any) -> None:
    (pause,) = await store.pauses()
    assert (await store.decide(pause, approved=True, by="ann")).by == "ann"


async def test_an_owner_may_be_named_beside_the_id_of_a_pause(store: Any) -> None:
    (pause,) = await store.pauses()
    with pytest.raises(NotFoundError):
        await store.decide(pause.id, approved=True, by="ann", user="bob")
    with pytest.raises(NotFoundError):
        await store.decide(pause, approved=True, by="ann", user="bob")
    assert await store.decide(pause.id, approved=True, by="ann", user="alice")


async def test_a_scope_sees_its_user_and_decides_as_that_user(store: Any) -> None:
    alice, bob = store.scope(user="alice"), store.scope(user="bob")
    assert [each.id for each in await alice.threads()] == ["c"]
    assert await bob.threads() == []
    assert len(await alice.search("secret")) == 1
    assert await bob.search("secret") == []
    (pause,) = await alice.pauses()
    assert await bob.pauses() == []
    with pytest.raises(NotFoundError):
        await bob.decide(pause, approved=True)
    with pytest.raises(TypeError):
        await alice.decide(pause, approved=True, by="ann")
    assert (await alice.decide(pause, approved=True)).by == "alice"


async def test_a_scope_cannot_be_given_anothers_handle(store: Any) -> None:
    handle = bare(store.thread("c", user="alice"))
    for call in ("resume", "cancel", "why", "pauses"):
        with pytest.raises(NotFoundError):
            await getattr(store.scope(user="bob"), call)(handle)
    with pytest.raises(NotFoundError):
        await store.scope(user="bob").compare(handle, handle)


@pytest.mark.parametrize("asked", [{}, {"user": ""}, {"user": None}, {"user": ANY_USER}, {"groups": ["finance"]},
                                   {"user": "a", "approver": "b"}, {"approver": "group:a"}, {"approver": ""},
                                   {"user": "a", "groups": ["b"]}, {"approver": "a", "groups": "bc"}])  # fmt: skip
async def test_a_scope_is_of_one_user_or_one_approver(store: Any, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        store.scope(**asked)


async def test_a_scope_of_another_namespace_sees_that_one(store: Any) -> None:
    elsewhere = store.scope(user="alice", namespace="acme")
    assert await elsewhere.threads() == []
    assert elsewhere.namespace == "acme"
    with pytest.raises(NotFoundError):
        await elsewhere.cancel(bare(store.thread("c", user="alice")))


async def _asked(store: Any, who: object, *, thread: str = "d", user: str = "bob", actor: str | None = None) -> Any:
    await store.start("ask", {"ask": "pay?", "who": who}, thread=bare(store.thread(thread, user=user, actor=actor)))
    await store.recover()
    return next(each for each in await store.pauses() if each.thread == thread)


async def test_an_approver_sees_what_is_addressed_to_them_to_their_groups_or_to_anybody(store: Any) -> None:
    await _asked(store, "ann", thread="for ann")
    await _asked(store, "group:finance", thread="for finance")
    await _asked(store, ["zoe", "group:legal"], thread="for others")
    seen = {
        name: {each.thread for each in await store.scope(approver=name, groups=groups).pauses()}
        for name, groups in (("ann", []), ("ben", ["finance"]), ("zoe", []), ("finance", []))
    }
    assert seen == {
        "ann": {"c", "for ann"}, "ben": {"c", "for finance"}, "zoe": {"c", "for others"}, "finance": {"c"}
    }  # fmt: skip


async def test_a_question_for_others_looks_absent_to_an_approver(store: Any) -> None:
    pause = await _asked(store, "zoe")
    ann = store.scope(approver="ann")
    for call in (ann.pause(pause), ann.decide(pause, approved=True), ann.link(pause), ann.pause(pause.id)):
        with pytest.raises(NotFoundError) as caught:
            await call
        assert "zoe" not in str(caught.value)


async def test_an_approver_finds_a_question_behind_many_for_others(store: Any) -> None:
    for number in range(4):
        await _asked(store, "zoe", thread=f"t{number}")
    assert [each.thread for each in await store.scope(approver="ann").pauses(limit=1)] == ["c"]


@pytest.mark.parametrize("starter", ["bob", "carl"])
async def test_who_started_a_run_does_not_approve_it(store: Any, starter: str) -> None:
    pause = await _asked(store, ["group:finance", "not:starter"], user="bob", actor="carl")
    finance = store.scope(approver=starter, groups=["finance"])
    assert pause.id not in {each.id for each in await finance.pauses()}
    with pytest.raises(NotAllowedError, match="group:finance other than carl and bob"):
        await store.decide(pause, approved=True, by=starter, groups=["finance"])
    assert await store.scope(approver="ann", groups=["finance"]).decide(pause, approved=True)


async def test_the_name_of_a_decision_cannot_be_passed_to_an_approver(store: Any) -> None:
    (pause,) = await store.pauses()
    with pytest.raises(TypeError):
        await store.scope(approver="ann").decide(pause, approved=True, by="zoe")
    assert (await store.scope(approver="ann").decide(pause, approved=True)).by == "ann"


async def test_a_link_is_bound_to_its_approver(store: Any) -> None:
    pause = await _asked(store, "group:finance")
    ann, ben = store.scope(approver="ann", groups=["finance"]), store.scope(approver="ben", groups=["finance"])
    token = await ann.link(pause, expires=timedelta(hours=1))
    for call in (ben.linked(token), ben.decide_by_link(token, approved=True)):
        with pytest.raises(LinkInvalidError, match="another person"):
            await call
    assert (await ann.linked(token)).id == pause.id
    assert (await store.decide_by_link(token, approved=True)).by == "ann"  # from a phone, without an account


async def test_who_left_the_group_decides_no_more_by_their_scope(store: Any) -> None:
    pause = await _asked(store, "group:finance")
    token = await store.scope(approver="ann", groups=["finance"]).link(pause)
    with pytest.raises(NotFoundError):
        await store.scope(approver="ann").decide_by_link(token, approved=True)


def _public(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls) if not name.startswith("_")}


@pytest.mark.parametrize("cls", [perdure.Perdure, sync.Perdure])
def test_every_method_of_a_store_is_one_users_or_an_operators(cls: type) -> None:
    """A new method has to be put on one of the two sides before it can be called by a request handler."""
    assert _public(cls) - _public(UserScope) <= OPERATORS
    assert not _public(UserScope) & OPERATORS
    assert _public(UserScope) - {"user"} <= _public(cls)


def test_no_method_of_a_scope_takes_a_user() -> None:
    for cls in (UserScope, ApproverScope):
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if not name.startswith("_"):
                whose = {"user", "namespace", "groups"} | (
                    {"by"} if name != "usage" else set()
                )  # there it is no person
                assert not whose & set(inspect.signature(method).parameters), name


def test_the_scopes_of_both_faces_have_the_same_methods() -> None:
    from perdure.sync import scope

    assert _public(scope.UserScope) == _public(UserScope)
    assert _public(scope.ApproverScope) == _public(ApproverScope)
