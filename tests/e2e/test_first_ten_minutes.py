"""The first ten minutes of a newcomer, typed into a shell on a pseudo-terminal: no key, no server."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

from tests.docs.pages import ROOT
from tests.docs.test_first_hour import new_environment

_END = re.compile(r"<<(\d+)>>\r?\n")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_PATIENCE = 120.0


class Shell:
    """A shell as somebody sits in front of it."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        command = ["bash", "--norc", "--noprofile"]
        self._process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.type("stty -echo; PS1=; PS2=", code=None)

    def type(self, line: str, code: int | None = 0) -> str:
        """What the screen shows after a line; it has to end with a code."""
        os.write(self._ours, f'{line}\necho "<<$?>>"\n'.encode())
        seen, end = "", time.monotonic() + _PATIENCE
        while not (found := _END.search(seen)):
            assert time.monotonic() < end, f"{line!r} did not end: {seen}"
            if select.select([self._ours], [], [], 1)[0]:
                seen += os.read(self._ours, 65536).decode()
        assert code is None or int(found[1]) == code, f"{line!r} ended with {found[1]}: {seen}"
        return _COLOURS.sub("", seen[: found.start()]).replace("\r\n", "\n")

    def close(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._ours)


def test_the_first_ten_minutes(tmp_path: Path) -> None:
    """S1.45, S4.2, B7: install, make a project, run it, kill it, go on, and look at what happened."""
    programs = new_environment(tmp_path / "venv")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "OPENAI_", "PYTHON"))}
    env = {
        **kept, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "TERM": "xterm-256color", "COLUMNS": "140", "HOME": str(tmp_path),
    }  # fmt: skip
    shell = Shell(tmp_path, env)
    try:
        shell.type(f"python -m pip wheel --quiet --no-deps --wheel-dir wheels '{ROOT}'")
        shell.type("python -m pip install --quiet wheels/*.whl")
        assert "next: cd agent && python agent.py" in shell.type("perdure init agent && cd agent")
        asked = shell.type("python agent.py")
        assert "Refund 89 EUR for order 1180? Answer it:" in asked
        # A worker is killed while it has a run: what it did stays done.
        shell.type("perdure start support ticket-2 --input '\"My lamp arrived broken. Order 1180.\"'")
        shell.type(
            "perdure worker > worker.log 2>&1 & for i in $(seq 300); do grep -q 'ticket-2' worker.log && break; "
            "sleep 0.1; done; kill -9 $!; wait $! 2> /dev/null; true"
        )
        assert "ticket-2" in shell.type("cat worker.log")
        assert "input_required" in shell.type("perdure resume ticket-2", code=6)
        (second,) = re.findall(r"pau_\S+", shell.type("perdure pauses ticket-2 -o csv | cut -d, -f1"))
        shell.type(f"perdure approve {second} --by ann")
        assert "finished" in shell.type("perdure resume ticket-2")
        (first,) = re.findall(r"perdure decide (pau_\S+)", asked)
        shell.type(f"perdure approve {first[:12]} --by ann")
        assert "finished" in shell.type("perdure resume ticket-1")
        assert re.search(r"^ticket-1 .*finished", shell.type("perdure threads"), re.MULTILINE)
        assert "You get 89 EUR back." in shell.type("perdure show ticket-1")
        assert "refund" in shell.type("perdure why ticket-1")
        assert "what-if" in shell.type("perdure fork ticket-1@-2 --to what-if --set context.city=Oslo")
        assert "Oslo" in shell.type("perdure compare ticket-1 what-if", code=None)
        timeline = shell.type("perdure timeline ticket-1")
        assert "refund(" in timeline
        assert "approved, by ann" in timeline
        assert "ticket-1" in shell.type("perdure sizes ticket-1")
        assert "next:" in shell.type("perdure show nothing", code=3)
    finally:
        shell.close()
