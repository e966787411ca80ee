"""Checks the indexes when a store is opened, and creates those that are missing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeAlias

from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from jazzmine._sync.message_store.mongodb_types import Client, Collection
from jazzmine.backends.mongodb.indexes import Index, missing_indexes
from jazzmine.backends.mongodb.queries import duplicates
from jazzmine.backends.mongodb.rights import require_rights
from jazzmine.errors import ConfigurationError

__all__ = ["Schema"]

logger: logging.Logger = logging.getLogger(__name__)

Missing: TypeAlias = list[tuple[Collection, list[Index]]]

# https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
_UNAUTHORIZED = 13
_NO_INDEX_THERE = frozenset({85, 86, 166})  # options conflict, specifications conflict, a view


class Schema:
    """The collections of a store, which may belong to another application."""

    def __init__(self, client: Client, collections: Sequence[Collection]) -> None:
        self._client = client
        self._collections = collections

    def missing(self) -> Missing:
        """Return the indexes that are missing, without creating them.

        Raises:
            ConfigurationError: a collection or an index belongs to another application, or the
                user lacks a right.
        """
        missing: Missing = []
        for collection in self._collections:
            try:
                existing = (collection.list_indexes()).to_list()
            except OperationFailure as error:
                raise _refused(error, collection) from error
            indexes = missing_indexes(collection.name, existing)
            if indexes:
                missing.append((collection, indexes))
                self._require_own(collection)
        self._require_rights(creates_indexes=bool(missing))
        return missing

    def _require_own(self, collection: Collection) -> None:
        """Raise if a document has no `id`, which every record has."""
        if collection.find_one({"id": {"$exists": False}}, {"_id": 1}) is not None:
            raise ConfigurationError(
                f"the collection {collection.full_name!r} holds documents that are not"
                " jazzmine's; choose another database (nothing was changed)"
            )

    def _require_rights(self, *, creates_indexes: bool) -> None:
        status = self._client.admin.command("connectionStatus", showPrivileges=True)
        names = [collection.name for collection in self._collections]
        database = self._collections[0].database.name
        require_rights(status, database, names, creates_indexes=creates_indexes)

    def create(self, missing: Missing) -> None:
        """Create indexes; several processes may do so at the same time, and wait for each other.

        Raises:
            ConfigurationError: several documents have the same id, and nothing was changed; or
                another process stored some, or created other indexes, at the same time.
        """
        for collection, indexes in missing:
            for index in indexes:
                if index.unique:
                    self._require_unique(collection, index.keys[0][0])
        for collection, indexes in missing:
            names = ", ".join(index.name for index in indexes)
            logger.info("creating the indexes %s of %s", names, collection.full_name)
            models = [IndexModel(list(index.keys), **index.options) for index in indexes]
            try:
                collection.create_indexes(models)
            except OperationFailure as error:
                raise _refused(error, collection) from error

    def _require_unique(self, collection: Collection, field: str) -> None:
        """Raise if several documents have the same value of a field."""
        cursor = collection.aggregate(duplicates(field), allowDiskUse=True)
        if found := cursor.to_list():
            value = found[0]["_id"]
            raise ConfigurationError(
                f"several documents of {collection.full_name!r} have the same {field}, {value!r};"
                " delete all but one of them (nothing was changed)"
            )


def _refused(error: OperationFailure, collection: Collection) -> Exception:
    """Return the error to raise for an error of the driver, or the same error."""
    where = f"MongoDB refused an index of {collection.full_name!r}"
    if isinstance(error, DuplicateKeyError):
        taken = (error.details or {}).get("keyValue")
        return ConfigurationError(
            f"{where}: several documents have the same {taken or 'id'}; delete all but one"
        )
    if error.code in _NO_INDEX_THERE:
        return ConfigurationError(f"{where}: {error.details and error.details.get('errmsg')}")
    if error.code == _UNAUTHORIZED:
        return ConfigurationError(f"{where}: the user lacks a right; grant the role readWrite")
    return error
