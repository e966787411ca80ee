"""Put records into a back end without the library, as another program would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.behaviour.backends import Config
from tests.behaviour.toy_backend import ToyData
from tests.servers import mongodb, postgres

__all__ = ["put"]

Raw = dict[str, Any]


def put(
    config: Config,
    conversations: list[Raw],
    messages: list[Raw] | None = None,
    traces: list[Raw] | None = None,
) -> None:
    """Replace all stored records."""
    sections = {
        "conversations": conversations,
        "messages": messages or [],
        "turn_traces": traces or [],
    }
    write = {"json": _json, "postgres": _postgres, "mongodb": _mongodb, "toy": _toy}
    write[str(config["storage"])](config, sections)


def _json(config: Config, sections: dict[str, list[Raw]]) -> None:
    path = Path(str(config["path"]))
    new = path.with_suffix(".new")
    new.write_text(json.dumps(sections))
    new.replace(path)


def _toy(config: Config, sections: dict[str, list[Raw]]) -> None:
    data = config["data"]
    assert isinstance(data, ToyData)
    data.clear()
    for kind, records in zip(data.tables, sections.values(), strict=True):
        for record in records:
            data.put(kind, record)


def _mongodb(config: Config, sections: dict[str, list[Raw]]) -> None:
    database = mongodb.client(str(config["uri"]))[str(config["db"])]
    for name, records in sections.items():
        database[name].delete_many({})
        if records:
            database[name].insert_many([dict(record) for record in records])


def _postgres(config: Config, sections: dict[str, list[Raw]]) -> None:
    schema = config["schema"]
    with postgres.connect(str(config["dsn"]), prepare_threshold=None) as connection:
        connection.execute(f'DELETE FROM "{schema}".conversations'.encode())
        for name, records in sections.items():
            for record in records:
                columns = ", ".join(f'"{column}"' for column in record)
                statement = f"""
                    INSERT INTO "{schema}"."{name}" ({columns})
                    SELECT {columns}
                    FROM json_populate_record(NULL::"{schema}"."{name}", %s::json)"""
                connection.execute(statement.encode(), [json.dumps(record)])
