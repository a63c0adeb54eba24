"""Kill a process in the middle of forgetting a user, at every kind of write, and look what is left.

    python -m tests.crash.forget_kills --kills 50 [--backend sqlite|file|postgres] [--seed N]

Two users have threads, forks, runs, large values. Each child is forked, forgets one of them and kills itself before or
after a statement or a call to the file system, chosen over the whole of the work. Then every thread that a list shows
is whole, the other user's are as they were, and forgetting again completes it, with one tombstone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import sync
from tests.app.forgetting import bytes_of, register
from tests.crash.marks import Page, watch

GONE, STAYS = "gone-user", "stays-user"
LARGE = "kanarienvogel " * 6_000


@dataclass
class Made:
    """A store, and what its threads hold."""

    backend: str
    folder: Path
    url: str
    states: dict[tuple[str, str], Any] = field(default_factory=dict)


def make(backend: str, folder: Path) -> Made:
    """The same for both users."""
    made = Made(backend, folder, _url(backend, folder))
    with sync.Perdure.open(made.url) as store:
        register(store, "sync")
        for user in (GONE, STAYS):
            for name in ("one", "two"):
                thread = store.thread(name, user=user)
                thread.append("messages", {"role": "user", "content": f"{user} {name} kanarienvogel"})
                thread.save({**thread.load(), "large": LARGE, "name": name})
            parent = store.thread("parent", user=user)
            parent.save({"kanarienvogel": 1})
            parent.fork("@-1", to="fork").update(set={"more": "kanarienvogel"})
            parent.delete()
            store.start("ask", "kanarienvogel", thread="job", user=user)
            store.resume("job", user=user)
            store.search("kanarienvogel", user=user)
        for each in store.threads():
            made.states[str(each.user), each.id] = store.thread(each.id, user=each.user).load(default=None)
    return made


_NUMBERS = itertools.count()


def _url(backend: str, folder: Path) -> str:
    if backend == "postgres":
        from perdure.testing.servers import require, shared_postgres

        return require(shared_postgres).database(f"forget_{os.getpid()}_{next(_NUMBERS)}")
    return f"sqlite:///{folder}/store.db" if backend == "sqlite" else f"file://{folder}/store"


def _copied(made: Made, folder: Path) -> str:
    """The url of a copy; PostgreSQL is filled again."""
    if made.backend == "postgres":
        return make("postgres", folder).url
    shutil.copytree(made.folder, folder / "copy")
    return _url(made.backend, folder / "copy")


def work(url: str) -> None:
    """What is killed."""
    with sync.Perdure.open(url) as store:
        assert store.forget(GONE, dry_run=False).is_complete


def _watched(page: Page, backend: str) -> None:
    watch(page)
    if backend == "postgres":
        import psycopg

        execute, commit = psycopg.Cursor.execute, psycopg.Connection.commit

        def marked(self: Any, *args: Any, **options: Any) -> Any:
            page.mark()
            answer = execute(self, *args, **options)
            page.mark()
            return answer

        def committed(self: Any) -> None:
            page.mark()
            commit(self)
            page.mark()

        psycopg.Cursor.execute, psycopg.Connection.commit = marked, committed  # type: ignore[method-assign]


def run_child(url: str, backend: str, page: Page, fatal: int) -> bool:
    """Forget in a child that ends itself at a mark, 0 for none; whether it came to its end."""
    page.clear(fatal)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _watched(page, backend)
            work(url)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def check(made: Made, url: str) -> list[str]:
    """What is wrong with a store after a kill, in words."""
    wrong: list[str] = []
    with sync.Perdure.open(url) as store:
        shown = {(str(each.user), each.id) for each in store.threads()}
        wrong += [f"{key} is gone" for key in made.states if key[0] == STAYS and key not in shown]
        for user, name in shown:
            thread = store.thread(name, user=user)
            if thread.load(default=None) != made.states[user, name]:
                wrong.append(f"{user}'s {name} is half there")
            if name != "job" and user == STAYS and name != "fork" and not thread.messages():
                wrong.append(f"{user}'s {name} has no messages")
        wrong += [
            f"a question of {each.thread}" for each in store.pauses() if (str(each.user), each.thread) not in shown
        ]
        report = store.verify(restore=True)
        wrong += [str(each) for each in report.damaged]
        if report.forgotten + report.interrupted > 1:
            wrong.append(f"{report.forgotten} forgotten, {report.interrupted} interrupted")
    return wrong


def finished(made: Made, url: str, place: Path) -> list[str]:
    """What is wrong once it was called again."""
    work(url)
    wrong = check(made, url)
    with sync.Perdure.open(url) as store:
        store.compact()
        report = store.verify(restore=True)
        if (report.forgotten, report.interrupted, len(store.forgotten())) != (1, 0, 1):
            wrong.append(f"{report.forgotten} forgotten, {report.interrupted} interrupted")
        if store.threads(user=GONE) or store.forget(GONE).threads:
            wrong.append("something is left")
        if made.backend != "postgres" and bytes_of(place, GONE):
            wrong.append(f"bytes are left in {bytes_of(place, GONE)}")
    return wrong


def campaign(backend: str, kills: int, seed: int) -> int:
    """Kill so many times, at marks spread over the work; 0 when nothing was wrong."""
    rng, page, wrong = random.Random(seed), Page(), list[str]()
    with tempfile.TemporaryDirectory() as root:
        made = make(backend, _folder(root, "made"))
        run_child(_copied(made, _folder(root, "whole")), backend, page, 0)
        marks = page.count
        for number in range(kills):
            fatal = 1 + (number * marks + rng.randrange(marks)) // kills
            folder = _folder(root, str(number))
            url = _copied(made, folder)
            if run_child(url, backend, page, min(fatal, marks)):
                wrong.append(f"mark {fatal} of {marks} was not reached")
            wrong += [f"mark {fatal}: {each}" for each in (*check(made, url), *finished(made, url, folder))]
            shutil.rmtree(folder)
    print(f"{backend}: {kills} kills at {marks} marks, {len(wrong)} things wrong")
    print("\n".join(wrong[:20]), end="")
    return int(bool(wrong))


def _folder(root: str, name: str) -> Path:
    folder = Path(root, name)
    folder.mkdir()
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--backend", choices=["sqlite", "file", "postgres"], nargs="+", default=["sqlite", "file"])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    return max([campaign(backend, given.kills, given.seed) for backend in given.backend])


if __name__ == "__main__":
    sys.exit(main())
