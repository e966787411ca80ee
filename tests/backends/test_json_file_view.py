"""A process detects that its file was replaced or changed."""

from __future__ import annotations

import os
from pathlib import Path

from jazzmine.backends.json.durable_file import FileView


def test_a_file_that_was_replaced_right_after_it_was_opened_is_not_current(tmp_path: Path) -> None:
    file, newer = tmp_path / "messages.json", tmp_path / "newer"
    file.write_text("{}")
    newer.write_text("{}")
    opened = os.open(file, os.O_RDONLY)
    newer.replace(file)

    view = FileView(opened)

    assert not view.is_current()
    view.close()


def test_a_view_that_is_closed_again_closes_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "messages.json"
    file.write_text("{}")
    view = FileView(os.open(file, os.O_RDONLY))
    view.close()
    # The system gives the lowest number that is free: that of the view.
    other = os.open(file, os.O_RDONLY)

    view.close()

    assert os.fstat(other)
    assert not view.is_current()
    os.close(other)
