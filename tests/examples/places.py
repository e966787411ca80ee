"""Empty databases for the examples in tests, each with its URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from tests.servers import postgres


@contextmanager
def sqlite_url(folder: Path) -> Iterator[str]:
    yield f"sqlite:{folder / 'messages.db'}"


@contextmanager
def postgres_url(folder: Path) -> Iterator[str]:
    with postgres.new_database() as dsn:
        parts = {key: quote(str(value)) for key, value in conninfo_to_dict(dsn).items()}
        yield "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**parts)


# A file and a server: a program sees no difference between the others and these.
MESSAGE_STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite": sqlite_url,
    "postgres": postgres_url,
}
