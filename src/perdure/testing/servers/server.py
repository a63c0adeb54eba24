"""What all servers have in common: they start, stop, crash, freeze, and never outlive the tests."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from perdure.testing.servers.accounts import prepare, remove, temporary_folder, unprivileged
from perdure.testing.servers.binaries import Programs
from perdure.testing.servers.family import family, freeze, kill, send, thaw, wait_gone
from perdure.testing.servers.guardian import GUARDIAN
from perdure.testing.servers.ports import LOOPBACK, Port

PATIENCE = 60.0  # seconds after which a server that neither starts nor stops is a failure


class ServerFailed(RuntimeError):
    """A server or one of its tools did not do what it was asked to; the message ends with what it said."""


class Server(ABC):
    """A real server on a loopback port, with its data in one folder.

    Without a `folder` it makes one in the system's temporary folder and removes it when it is closed. With
    `durable=False` it leaves out fsync, for tests that only want to be quick. `settings` are the server's own, by
    their own names. `with server:` starts it and closes it. Raises `ServerMissing` at once if its program is not on
    this machine.
    """

    programs: ClassVar[Programs]
    _stop_signal = signal.SIGTERM  # ends it cleanly
    _quick_signal = signal.SIGKILL  # ends it when nobody needs its data any more

    def __init__(
        self, folder: Path | None = None, *, durable: bool = True, settings: Mapping[str, str] | None = None
    ) -> None:
        self._program = self.programs.find()
        self._durable = durable
        self._account = unprivileged()
        self._settings = dict(settings or {})
        self._given = folder
        self._made: Path | None = None
        self._port: Port | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """The program and its arguments, to run in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves clients now."""

    def _initialise(self) -> None:  # noqa: B027  (not every server needs it)
        """Fill the fresh folder; called once in its life."""

    @property
    def folder(self) -> Path:
        """Where its data and its log are."""
        if self._given is None and self._made is None:
            self._made = temporary_folder(self._account)
        return self._given or self._made or Path()

    @property
    def log(self) -> Path:
        """The file it writes its log to."""
        return self.folder / "log"

    @property
    def host(self) -> str:
        """The loopback address."""
        return LOOPBACK

    @property
    def port(self) -> int:
        """Its port on the loopback address, the same from the first use until it is closed."""
        if self._port is None:
            self._port = Port()
        return self._port.number

    @property
    def pid(self) -> int | None:
        """Its first process, while it is running."""
        return self._process.pid if self._process and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process is there; a frozen one is."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it if it is down, and wait until it answers. Raises `ServerFailed`."""
        if self.running:
            return self
        prepare(self.folder, self._account)
        self._promise_to_close()
        filled = self.folder / "filled"  # written last: a folder whose filling broke off is filled again
        if not filled.exists():
            self._initialise()
            filled.touch()
        self._spawn()
        self._await_answer()
        return self

    def stop(self) -> None:
        """Stop it cleanly, frozen or not, and wait for its end."""
        self._end(self._stop_signal)

    def crash(self) -> None:
        """Kill it with all its processes at once (SIGKILL): the next start has to recover."""
        if self._process and self.running:
            self._wait_for(self._process, kill(self._process.pid))

    def freeze(self) -> None:
        """Stop all its processes in their tracks: connections stay open and nothing answers."""
        if self._process and self.running:
            GUARDIAN.watch(self, pids=freeze(self._process.pid), folder=self._made)

    def thaw(self) -> None:
        """Let it go on."""
        if self._process and self.running:
            thaw(self._process.pid)
            GUARDIAN.watch(self, pids=[self._process.pid], folder=self._made)

    def close(self) -> None:
        """End it for good: cleanly if its folder stays, else quickly and with the folder."""
        self._end(self._stop_signal if self._made is None else self._quick_signal)
        atexit.unregister(self._close_at_exit)
        if self._made:
            remove(self._made)
            self._made = None
        if self._port:
            self._port.release()
            self._port = None
        GUARDIAN.forget(self)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _promise_to_close(self) -> None:
        """Leave nothing behind, however this process ends."""
        self._owner = os.getpid()
        atexit.register(self._close_at_exit)
        GUARDIAN.watch(self, folder=self._made)

    def _spawn(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                list(map(str, self._command())),
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # ^C at the terminal is for the tests, which then close us
                **self._account.words(),
            )
        GUARDIAN.watch(self, pids=[self._process.pid], folder=self._made)

    def _await_answer(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._answers():
            if not self.running or time.monotonic() > end:
                self.crash()
                raise ServerFailed(f"{self._program.name} did not start; its log ends with:\n{self._last_words()}")
            time.sleep(0.005)

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or not self.running:
            return
        members = family(process.pid)
        send([process.pid], number)
        self.thaw()
        self._wait_for(process, members)

    def _wait_for(self, process: subprocess.Popen[bytes], members: list[int]) -> None:
        """Wait for the end of a server and of all that it started: PostgreSQL waits for it too before it starts."""
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            kill(process.pid)
            process.wait()
            raise ServerFailed(f"{self._program.name} did not stop; its log ends with:\n{self._last_words()}") from None
        if not wait_gone(members, PATIENCE):
            raise ServerFailed(f"children of {self._program.name} outlive it: {members}")
        GUARDIAN.watch(self, folder=self._made)

    def _run(self, command: Sequence[str | Path], feed: str = "") -> str:
        """Run a tool as the server's account and return what it says. Raises `ServerFailed`."""
        words = list(map(str, command))
        done = subprocess.run(
            words,
            input=feed,
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            **self._account.words(),
        )
        if done.returncode:
            raise ServerFailed(f"`{' '.join(words)}` failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        # Not ours: a PGHOST or a PYTHONPATH of the person at the terminal would change what a test means.
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", "HOME": str(self.folder)}

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:]) if self.log.exists() else ""

    def _close_at_exit(self) -> None:
        if self._owner == os.getpid():  # a child that forked off ends without taking our server with it
            self.close()
