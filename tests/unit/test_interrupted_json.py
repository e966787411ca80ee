"""An interrupt (Ctrl-C) while pydantic writes JSON is an interrupt, and no error of the value."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, PlainSerializer
from pydantic_core import PydanticSerializationError

from jazzmine.records.base import Record, Snapshot, json_of


def failing(value: str) -> Any:
    raise KeyboardInterrupt if value == "stop" else ValueError(value)


Failing = Annotated[str, PlainSerializer(failing)]


class Inner(BaseModel):
    text: Failing


class Outer(Record):
    inner: Inner


def test_an_interrupt_is_raised_as_it_is() -> None:
    with pytest.raises(KeyboardInterrupt):
        print(Snapshot(Outer(inner=Inner(text="stop"))).json)


@pytest.mark.parametrize("text", ["broken", "KeyboardInterrupt", "KeyboardInterrupt: x"])
def test_an_error_of_the_value_stays_one(text: str) -> None:
    record = Outer(inner=Inner(text=text))
    with pytest.raises(PydanticSerializationError, match=text):
        json_of(record.__pydantic_serializer__, record)
