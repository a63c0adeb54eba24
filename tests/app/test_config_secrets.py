"""What a file says is shown without what may be a password."""

from __future__ import annotations

from perdure import Config


def test_a_password_of_an_address_is_not_shown() -> None:
    config = Config.parse("storage:\n  sessions: 'postgresql://u:hunter2@h/db?password=hunter3'\n")
    assert "hunter" not in repr(config)
