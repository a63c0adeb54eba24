"""The other end of a `Peer`: one command a line is read, one line is answered."""

from __future__ import annotations

import sys


def obey(peer: object) -> None:
    """Call the method of each command with the rest of its line, until the commands end."""
    print("ready", flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        print(getattr(peer, command)(*arguments), flush=True)
