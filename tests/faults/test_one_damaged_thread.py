"""One damaged thread of a folder of files stops nobody else: it is left out, named, mended or deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import ANY_USER, sync
from perdure import Perdure as AsyncPerdure
from perdure.core.errors import DamagedError, PerdureError
from perdure.core.retention_policy import Retention
from perdure.sync import Perdure
from tests.faults.places import raised, url_of

USERS = ("ann", "bob", "carl")
STATES = 5


def folder_of(place: Path, user: str) -> Path:
    """Which folder is whose is read off the first lines of the logs, as a person would."""
    for folder in (place / "threads").iterdir():
        first = json.loads((folder / "log.jsonl").read_text().splitlines()[0])
        if first["changed"]["key"]["user"] == user:
            return folder
    raise AssertionError(user)


def flip_lease(folder: Path) -> None:
    data = bytearray((folder / "lease.json").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "lease.json").write_bytes(data)


def lose_the_last_line(folder: Path) -> None:
    lines = (folder / "log.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "log.jsonl").write_bytes(b"".join(lines[:-1]))


def empty_the_log(folder: Path) -> None:
    (folder / "log.jsonl").write_bytes(b"")


def delete_the_log(folder: Path) -> None:
    (folder / "log.jsonl").unlink()


def make_it_unreadable(folder: Path) -> None:
    (folder / "log.jsonl").unlink()
    (folder / "log.jsonl").mkdir()


def flip_a_line_and_lose_the_index(folder: Path) -> None:
    lines = (folder / "log.jsonl").read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"payload", b"paylaod")
    (folder / "log.jsonl").write_bytes(b"".join(lines))
    (folder / "index.jsonl").unlink()


INTACT = {flip_lease: 5, lose_the_last_line: 4, flip_a_line_and_lose_the_index: 2}  # the version to load
HARMS = (*INTACT, empty_the_log, delete_the_log, make_it_unreadable)


def fill(url: str) -> None:
    with Perdure.open(url) as store:
        for user in USERS:
            thread = store.thread(f"t-{user}", user=user)
            for number in range(1, STATES + 1):
                thread.save({"owner": user, "n": number, "messages": [{"role": "user", "content": f"hi {number}"}]})
        store.handler("work")(lambda run: run.pause("go on", ask="Go on?"))
        for user in USERS:
            store.start("work", None, thread=f"t-{user}", user=user)
        store.recover()


@pytest.fixture(params=HARMS, ids=lambda harm: harm.__name__)
def harm(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    return request.param


@pytest.fixture
def url(tmp_path: Path, harm: Callable[[Path], None]) -> str:
    """Bob's thread is damaged; each has a run that waits for an answer."""
    made = url_of("file", tmp_path)
    fill(made)
    harm(folder_of(tmp_path / "place", "bob"))
    return made


def test_everybody_else_goes_on(url: str) -> None:
    with Perdure.open(url) as store:
        assert sorted(info.id for info in store.threads()) == ["t-ann", "t-carl"]
        assert len(store.runs()) == len(store.pauses()) == 2
        assert {line.user for line in store.search("hi")} == {"ann", "carl"}
        assert store.analytics().conversations == 2
        assert store.sizes(threads=5).threads == 2
        store.prune(Retention(last=2))
        assert store.recover() == []
        pause = next(each for each in store.pauses() if each.thread == "t-ann")
        store.decide(pause.id, approved=True, by="ann", user=ANY_USER)
        assert store.thread("t-carl", user="carl").load()["owner"] == "carl"
        store.thread("t-carl", user="carl").append("messages", {"role": "user", "content": "more"})


def test_it_is_named_and_deleted(url: str) -> None:
    with Perdure.open(url) as store:
        (damage,) = store.damaged()
        assert damage.place.startswith("threads/")
        assert damage.reason
        assert not store.verify().ok
        store.repair()
        with pytest.raises(PerdureError):
            _unless_mended(store)
        assert store.thread("t-bob", user="bob").delete()
        assert store.damaged() == []
        assert store.verify().ok
        store.thread("t-bob", user="bob").save({"again": True})
        assert len(store.threads()) == 3


def _unless_mended(store: Perdure) -> None:
    store.thread("t-bob", user="bob").load()
    assert store.damaged() == []
    raise PerdureError("mended")


async def test_asynchronous_callers_are_told_too(url: str) -> None:
    async with AsyncPerdure.open(url) as store:
        assert len(await store.damaged()) == 1


def test_a_lease_that_cannot_be_read_is_mended_and_fences_who_held_it(tmp_path: Path) -> None:
    url = url_of("file", tmp_path)
    fill(url)
    with Perdure.open(url) as store:
        before = store.thread("t-bob", user="bob").info()
        flip_lease(folder_of(tmp_path / "place", "bob"))
        assert [each.thread_id for each in store.damaged()] == ["t-bob"]
        assert store.repair().ok
        assert store.damaged() == []
        assert store.thread("t-bob", user="bob").load()["n"] == STATES
        assert store.thread("t-bob", user="bob").info().version == before.version
        assert len(store.pauses()) == 3


@pytest.mark.parametrize("harm", INTACT, ids=lambda harm: harm.__name__)
def test_intact_versions_load_as_the_error_advises(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    url = url_of("file", tmp_path)
    with Perdure.open(url) as store:
        thread = store.thread("t-bob", user="bob")
        for number in range(1, STATES + 1):
            thread.save({"n": number})
        with thread_lease(store):
            pass
    harm(folder_of(tmp_path / "place", "bob"))
    with Perdure.open(url) as store:
        thread = store.thread("t-bob", user="bob")
        with pytest.raises(DamagedError, match=f"load..@{INTACT[harm]}") as caught:
            thread.load()
        assert caught.value.intact == INTACT[harm]  # type: ignore[attr-defined]
        for number in range(1, INTACT[harm] + 1):
            assert thread.load(f"@{number}") == {"n": number}
        if INTACT[harm] < STATES:
            with pytest.raises(DamagedError):
                thread.load(f"@{STATES}")
        with pytest.raises(DamagedError):
            thread.save({"n": 9})


class thread_lease:
    """Somebody had run the thread once: there is a lease file."""

    def __init__(self, store: Perdure) -> None:
        from perdure.core.identity import ThreadKey
        from perdure.storage.drive import drive
        from perdure.sync.store import inside

        storage, key = inside(store)[0]._parts.storage, ThreadKey("", "bob", "t-bob")  # pyright: ignore[reportPrivateUsage]
        lease = drive(storage.claim(key, "somebody", until=1, now=0))
        drive(storage.release(key, lease.epoch))

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_a_fork_of_a_damaged_thread_does_not_notice(tmp_path: Path) -> None:
    url = url_of("file", tmp_path)
    fill(url)
    parent = folder_of(tmp_path / "place", "bob")
    with Perdure.open(url) as store:
        store.thread("t-bob", user="bob").fork("@2", to="branch")
    lose_the_last_line(parent)
    with Perdure.open(url) as store:
        assert store.thread("branch", user="bob").load()["n"] == 2


# ── another user's state ──────────────────────────────────────────────────────────────────────────────────────────────


def swap(place: Path) -> None:
    one, other = folder_of(place, "ann"), folder_of(place, "bob")
    one.rename(place / "spare")
    other.rename(one)
    (place / "spare").rename(other)


def copy_over(place: Path) -> None:
    one, other = folder_of(place, "ann"), folder_of(place, "bob")
    shutil.rmtree(one)
    shutil.copytree(other, one)


def copy_the_log_over(place: Path) -> None:
    one, other = folder_of(place, "ann"), folder_of(place, "bob")
    shutil.copy(other / "log.jsonl", one / "log.jsonl")


def copy_beside_the_index(place: Path) -> None:
    copy_the_log_over(place)
    (folder_of_first(place) / "index.jsonl").unlink()


def folder_of_first(place: Path) -> Path:
    """The folder whose name does not fit its log."""
    from perdure.core.identity import ThreadKey

    return place / "threads" / ThreadKey("", "ann", "same").digest()


@pytest.mark.parametrize(
    "harm", [swap, copy_over, copy_the_log_over, copy_beside_the_index], ids=lambda each: each.__name__
)
def test_a_log_in_the_folder_of_another_thread_is_damage(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    url = url_of("file", tmp_path)
    with Perdure.open(url) as store:
        for user in USERS:
            for number in range(3):
                store.thread("same", user=user).save({"owner": user, "n": number})
    harm(tmp_path / "place")
    with Perdure.open(url) as store:
        for ref in (None, "@1", "@2"):
            error = raised(lambda ref=ref: store.thread("same", user="ann").load(ref))
            assert isinstance(error, DamagedError)
            assert "bob" not in str(error)
        assert store.thread("same", user="carl").load()["owner"] == "carl"
        assert "ann" not in {info.user for info in store.threads()}
        assert len(store.damaged()) == (2 if harm is swap else 1)
        assert not store.verify().ok
        assert not store.repair().ok
        with pytest.raises(DamagedError):
            store.thread("same", user="ann").save({"owner": "ann"})


def test_copies_imports_and_forks_have_an_identity_of_their_own(tmp_path: Path) -> None:
    with Perdure.open(url_of("file", tmp_path)) as store:
        store.thread("first", user="ann").save({"n": 1})
        store.thread("first", user="ann").fork("@1", to="branch")
        store.export("first", tmp_path / "first.perdure", user="ann")
        store.import_(tmp_path / "first.perdure", to="copy", user="bob")
    logs = list((tmp_path / "place" / "threads").glob("*/log.jsonl"))
    identities = {json.loads(log.read_text().splitlines()[0])["identity"] for log in logs}
    assert len(identities) == len(logs) == 3
    with sync.Perdure.open(url_of("file", tmp_path)) as store:
        assert store.thread("copy", user="bob").load() == store.thread("branch", user="ann").load() == {"n": 1}
        assert store.verify().ok
