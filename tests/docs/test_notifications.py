"""The guide's way to e-mail, against a server that speaks as much SMTP as it takes."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

from tests.docs.pages import ROOT, blocks

GUIDE = ROOT / "docs" / "guides" / "notifications.md"
TOLD = {"id": "ntf_1", "ask": "Deploy\nto production?", "args": {"env": "prod"}, "pause": "pau_1.1"}


def take_one(listening: socket.socket, taken: list[str]) -> None:
    """Take one message."""
    connection, _ = listening.accept()
    with connection, connection.makefile("rw", newline="") as stream:
        _say(stream, "220 ready")
        for word in iter(lambda: stream.readline()[:4].upper(), "QUIT"):
            if word == "DATA":
                _say(stream, "354 go on")
                taken.extend(iter(lambda: stream.readline().rstrip("\r\n"), "."))
            _say(stream, "250 taken")
        _say(stream, "221 bye")


def _say(stream: Any, text: str) -> None:
    stream.write(f"{text}\r\n")
    stream.flush()


def test_the_guide_sends_mail() -> None:
    names: dict[str, Any] = {"json": json}
    (example,) = [block.text for block in blocks(GUIDE) if "smtplib" in block.text]
    exec(example, names)
    taken: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=take_one, args=(listening, taken))
        serving.start()
        names["mail"](TOLD, "127.0.0.1", listening.getsockname()[1])
        serving.join()
    assert {"Subject: Deploy to production?", "Message-ID: <ntf_1@example.com>", '  "env": "prod"'} <= set(taken)
