"""`perdure init` and `perdure doctor`: a project that runs offline, and what is wrong with a machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.cli.init import FILES
from perdure.sync import Perdure
from perdure.testing.servers import require, shared_mariadb, shared_postgres, shared_redis
from tests.cli.test_cli import perdure
from tests.cli.test_runs import until


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))


def python(folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def test_a_new_project_runs_offline_waits_for_a_person_and_goes_on(tmp_path: Path) -> None:
    """N4: one store for every command in the folder, named by its configuration."""
    done = perdure("init", "my agent", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("next: cd 'my agent' && python agent.py\n")
    project = tmp_path / "my agent"
    assert {each.name for each in project.iterdir()} >= {*FILES, "agents.db"}
    told = python(project, "agent.py")
    assert told.startswith("Refund 89 EUR for order 1180? Answer it:\n  perdure decide pau_")
    with Perdure.open(f"sqlite:///{project}/agents.db") as store:
        (pause,) = store.pauses()
        store.decide(pause, approved=True, by="ann")
    assert python(project, "agent.py") == "You get 89 EUR back.\n"
    assert "1 passed" in python(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore")
    shown = json.loads(perdure("config", "show", "-o", "json", folder=project).stdout)
    assert shown["worker.handlers"] == {"value": "agent.py", "origin": "perdure.yaml:9:13"}
    assert json.loads(perdure("doctor", "-o", "json", folder=project).stdout)[-1]["level"] == "ok"


def test_a_worker_takes_its_handlers_from_a_configuration_that_is_trusted(tmp_path: Path) -> None:
    """The file of `perdure init` is; one that came with a folder is not, and runs nothing."""
    perdure("init", "agent", folder=tmp_path)
    project = tmp_path / "agent"
    with Perdure.open(f"sqlite:///{project}/agents.db") as store:
        store.start("support", "My lamp arrived broken. Order 1180.", thread="ticket-2")
        with subprocess.Popen(
            [sys.executable, "-m", "perdure", "worker"], cwd=project, stdout=subprocess.PIPE
        ) as child:
            try:
                until(lambda: store.pauses())
            finally:
                child.send_signal(signal.SIGTERM)
            assert b"support" in (child.stdout.read() if child.stdout else b"")
        assert child.returncode == 0
    (project / "perdure.yaml").write_text("store: sqlite:///agents.db\nworker: {handlers: evil.py}\n")
    (project / "evil.py").write_text("open('evil', 'w')")
    done = perdure("worker", folder=project)
    assert done.returncode == 5
    assert "worker.handlers is not taken from a file that nobody named" in done.stderr
    assert not (project / "evil").exists()


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("mine")
    done = perdure("init", ".", folder=tmp_path)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "error: . has agent.py already; name another folder: perdure init NEW_FOLDER\n"
    assert [each.name for each in tmp_path.iterdir()] == ["agent.py"]
    assert (tmp_path / "agent.py").read_text() == "mine"
    assert perdure("init", "agent.py", folder=tmp_path).returncode == 5


def findings(folder: Path, *words: str) -> tuple[int, dict[str, str]]:
    done = perdure("doctor", *words, "-o", "json", folder=folder)
    return done.returncode, {f"{each['check']}: {each['text']}": each["level"] for each in json.loads(done.stdout)}


def level(found: dict[str, str], words: str) -> str:
    (one,) = [level for text, level in found.items() if words in text]
    return one


def test_doctor_finds_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    url = "sqlite:///agents.db"
    assert findings(tmp_path, url)[0] == 7
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        store.thread("t").save({})
    code, found = findings(tmp_path, url)
    assert (code, level(found, "rights: you may write"), level(found, "journal_mode is wal")) == (0, "ok", "ok")
    assert level(found, "clock: this machine and the file system differ by 0") == "ok"
    os.chmod(tmp_path / "agents.db", 0o666)
    code, found = findings(tmp_path, url)
    assert (code, level(found, "other accounts may read or change")) == (0, "warning")
    (tmp_path / "agents.db").write_bytes(b"not a database, but a text" * 100)
    code, found = findings(tmp_path, url)
    assert (code, level(found, "store: ")) == (7, "failed")
    assert [each.name for each in tmp_path.iterdir() if "doctor" in each.name] == []


def test_doctor_asks_servers_for_their_settings(tmp_path: Path) -> None:
    redis = require(shared_redis).url
    for server, scheme in ((shared_postgres, "PostgreSQL"), (shared_mariadb, "MariaDB")):
        url = require(server).database(f"doctor_{os.getpid()}")
        with Perdure.open(url) as store:
            store.thread("t").save({})
        (tmp_path / "perdure.yaml").write_text(f"store: {url}\nhot: {redis}\n")
        code, found = findings(tmp_path, "--config", "perdure.yaml")
        assert code == 0, found
        assert level(found, f"server: {scheme}" if scheme == "PostgreSQL" else scheme) == "ok"
        assert level(found, "clock: this machine and the server") == "ok"
        assert level(found, "hot layer: Redis answers") == "ok"
        assert any("a round trip to the server takes" in each for each in found)
    assert findings(tmp_path, "postgresql://127.0.0.1:1/x")[0] == 7
