"""Brings the tables of a PostgreSQL database up to date."""

from __future__ import annotations

from jazzmine._async.message_store.postgres_connection import Connection
from jazzmine.errors import ConfigurationError
from jazzmine.layouts.postgres.schema import (
    HAS_SCHEMA,
    HAS_VERSIONS,
    LOCK,
    MAKE_SCHEMA,
    MAKE_VERSIONS,
    NOTE_VERSION,
    READ_VERSION,
    bind,
    migrations,
    quoted,
)

__all__ = ["migrate"]


async def migrate(connection: Connection, schema: str) -> None:
    """Apply the migrations that the schema lacks; others that start now wait for the first.

    Raises:
        ConfigurationError: the schema is newer than this library, or the database can't hold
            all characters.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigurationError(f"the database's encoding is {encoding}; jazzmine needs UTF8")
    if await _version(connection, schema) == migrations()[-1].version:
        return
    async with connection.transaction():
        await connection.execute(bind(LOCK, schema), {"schema": schema})
        if not await _holds(connection, HAS_SCHEMA, quoted(schema)):
            await connection.execute(bind(MAKE_SCHEMA, schema))
        await connection.execute(bind(MAKE_VERSIONS, schema))
        version = await _version(connection, schema)
        for step in migrations():
            if step.version > version:
                await connection.execute(bind(step.sql, schema), prepare=False)
                noted = {"version": step.version, "name": step.name}
                await connection.execute(bind(NOTE_VERSION, schema), noted)


async def _version(connection: Connection, schema: str) -> int:
    if not await _holds(connection, HAS_VERSIONS, quoted(schema)):
        return 0
    row = await (await connection.execute(bind(READ_VERSION, schema))).fetchone()
    version = int(row[0]) if row else 0
    known = migrations()[-1].version
    if version > known:
        raise ConfigurationError(
            f"schema {schema!r} of the database has version {version}, and this jazzmine knows"
            f" none beyond {known}: upgrade jazzmine"
        )
    return version


async def _holds(connection: Connection, question: str, name: str) -> bool:
    row = await (await connection.execute(question.encode(), {"schema": name})).fetchone()
    return bool(row and row[0])
