"""A process detects that its file was replaced or changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jazzmine.backends.json.durable_file import FileView, open_view


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "messages.json"
    path.write_text("{}")
    return path


def test_a_file_that_was_replaced_right_before_it_was_opened_is_not_current(file: Path) -> None:
    status = os.stat(file)
    newer = file.with_name("newer")
    newer.write_text("{}")
    newer.replace(file)

    view = FileView(os.open(file, os.O_RDONLY), status)

    assert not view.is_current(str(file))


def test_a_file_whose_descriptor_never_changes_is_not_current_once_its_path_does(
    file: Path,
) -> None:
    """As on an overlay, where a descriptor may lead to the lower layer for ever."""
    lower = file.with_name("lower")
    lower.write_text("{}")
    view = FileView(os.open(lower, os.O_RDONLY), os.stat(file))
    was_current = view.is_current(str(file))

    file.write_text("{ }")

    assert was_current
    assert not view.is_current(str(file))


def test_a_view_that_is_closed_again_closes_no_other_file(file: Path) -> None:
    view = open_view(str(file))
    view.close()
    # The system gives the lowest number that is free: that of the view.
    other = os.open(file, os.O_RDONLY)

    view.close()
    del view

    assert os.fstat(other)
    os.close(other)
