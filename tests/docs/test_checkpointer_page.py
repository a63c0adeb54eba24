"""The reference of the checkpointers is the one that the code makes, and leaves nothing out."""

from __future__ import annotations

from perdure import checkpointer
from perdure.checkpointer import BaseCheckpointer
from tests.docs.checkpointer_reference import PAGE, PARTS, page


def test_the_page_is_the_one_that_the_code_makes() -> None:
    """`python -m tests.docs.checkpointer_reference` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_it_leaves_nothing_out() -> None:
    assert all(name in page() for name in checkpointer.__all__)
    assert set(BaseCheckpointer.__mro__) - set(PARTS) == {BaseCheckpointer, object}
