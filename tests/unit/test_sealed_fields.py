"""The fields that an encrypted store leaves readable, and what is stored in place of the others."""

from __future__ import annotations

import pytest

from jazzmine.encryption.fields import ENCRYPTED, PARTS, READABLE
from jazzmine.records.base import Record


@pytest.mark.parametrize("kind", READABLE, ids=lambda kind: kind.__name__)
def test_each_field_is_readable_or_sealed_or_a_list_of_records(kind: type[Record]) -> None:
    named = [*READABLE[kind], *ENCRYPTED[kind], *PARTS[kind]]

    assert sorted(named) == sorted(kind.model_fields)
