"""Checks the collections when a store is opened, and creates missing indexes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from jazzmine._sync.clients.mongodb.types import Client, Collection, Database
from jazzmine.backends.mongodb.documents import HIDDEN
from jazzmine.backends.mongodb.errors import text_of
from jazzmine.backends.mongodb.indexes import MESSAGES, Index, missing_indexes
from jazzmine.backends.mongodb.rights import require_rights
from jazzmine.backends.mongodb.words import SEARCH_INDEXES
from jazzmine.errors import ConfigurationError

__all__ = ["Missing", "Schema"]

logger: logging.Logger = logging.getLogger(__name__)

# The collection with the names of the fields in the documents of the others.
_FIELDS = "jazzmine_fields"
# A field of messages in a store with a search index.
_SEARCH = f"{MESSAGES}.search_entry"

# https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml
_UNAUTHORIZED = 13
# No such index, other options, another specification, not supported, a view; DocumentDB's and
# Atlas's own.
_NO_INDEX_THERE = frozenset({67, 85, 86, 115, 166, 303, 8000})


class Missing(NamedTuple):
    """The indexes and notes that opening a store creates."""

    indexes: list[tuple[Collection, list[Index]]]
    fields: list[str]

    def __bool__(self) -> bool:
        return bool(self.indexes or self.fields)

    def steps(self) -> list[str]:
        """Return a phrase for each."""
        steps = [
            f"create the index {index.name} of {collection.full_name}"
            for collection, indexes in self.indexes
            for index in indexes
        ]
        return [*steps, *([f"note the names of the fields in {_FIELDS}"] if self.fields else [])]


class Schema:
    """The collections of a store, which may belong to another application.

    Args:
        indexes: the indexes of each collection, by its name.
        fields: the names of all fields that this version stores. A newer version notes its new
            fields, and an older version then refuses to open.
    """

    def __init__(
        self,
        client: Client,
        database: Database,
        indexes: Mapping[str, Sequence[Index]],
        fields: Sequence[str],
    ) -> None:
        self._client = client
        self._database = database
        self._indexes = indexes
        self._fields = fields

    def missing(self) -> Missing:
        """Return the missing indexes and notes, without creating them.

        Raises:
            ConfigurationError: a collection or an index belongs to another application, a newer
                version has stored fields, or the user lacks a right.
        """
        fields = self._missing_fields()
        if len(fields) == len(self._fields):
            fields = self._require_own()
        absent = []
        for name, wanted in self._indexes.items():
            collection = self._database[name]
            try:
                existing = (collection.list_indexes()).to_list()
            except OperationFailure as error:
                raise _refused(error, collection) from error
            indexes = missing_indexes(name, wanted, existing)
            if indexes:
                absent.append((collection, indexes))
        self._require_rights(creates_indexes=bool(absent))
        return Missing(absent, fields)

    def _require_own(self) -> list[str]:
        """Raise if there are documents without notes; return the fields without a note."""
        for name in self._indexes:
            collection = self._database[name]
            if collection.find_one({}, {"_id": 1}) is None:
                continue
            # Another process may have noted the fields meanwhile, and stored the first document.
            fields = self._missing_fields()
            if len(fields) == len(self._fields):
                raise ConfigurationError(
                    f"the collection {collection.full_name!r} holds documents that this version of"
                    " jazzmine has not stored; if jazzmine 0.1 has, bring them into another"
                    " database with `jazzmine adopt FROM TO`, else choose another database"
                    " (nothing was changed)"
                )
            return fields
        return list(self._fields)

    def _missing_fields(self) -> list[str]:
        noted = self.noted("names") or {}
        # Other kinds of store note the fields of their own collections.
        names = {name for name in noted.get("names", ()) if name.split(".")[0] in self._indexes}
        unknown = sorted(names.difference(self._fields, [_SEARCH]))
        if unknown:
            raise ConfigurationError(
                f"a newer version of jazzmine has stored records in {self._database.name!r} with"
                f" fields that this one does not know ({', '.join(unknown)}); install that version"
                " (nothing was changed)"
            )
        return [name for name in self._fields if name not in names]

    def noted(self, name: str) -> dict[str, Any] | None:
        """Return the note under a name, or None."""
        note: dict[str, Any] | None = self._database[_FIELDS].find_one({"_id": name})
        return note

    def change_search(self, language: str | None) -> None:
        """Make the search indexes and note the language; or remove them with all entries."""
        notes, messages = self._database[_FIELDS], self._database[MESSAGES]
        names, own = {"names": _SEARCH}, {"_id": "search"}
        if language is None:
            notes.delete_one(own)
            is_searched = {"search_language": {"$exists": True}}
            messages.update_many(is_searched, {"$unset": dict.fromkeys(HIDDEN, "")})
            existing = (messages.list_indexes()).to_list()
            for description in existing:
                if any(index.is_same(description) for index in SEARCH_INDEXES):
                    messages.drop_index(description["name"])
            notes.update_one({"_id": "names"}, {"$pull": names})
            return
        # First, so that a version that does not know of the index refuses to open the store.
        notes.update_one({"_id": "names"}, {"$addToSet": names}, upsert=True)
        existing = (messages.list_indexes()).to_list()
        if missing := missing_indexes(MESSAGES, SEARCH_INDEXES, existing):
            models = [IndexModel(list(index.keys), **index.options) for index in missing]
            try:
                messages.create_indexes(models)
            except OperationFailure as error:
                raise _refused(error, messages) from error
        is_empty = messages.find_one({}, {"_id": 1}) is None
        state = {**own, "language": language, "is_complete": is_empty}
        notes.replace_one(own, state, upsert=True)

    def complete_search(self, language: str) -> None:
        """Note that all messages are in the index of a language."""
        of_language = {"_id": "search", "language": language}
        self._database[_FIELDS].update_one(of_language, {"$set": {"is_complete": True}})

    def _require_rights(self, *, creates_indexes: bool) -> None:
        try:
            status = self._client.admin.command("connectionStatus", showPrivileges=True)
        except OperationFailure:
            return  # Cosmos DB, for one, does not know the command
        names = [*self._indexes, _FIELDS]
        require_rights(status, self._database.name, names, creates_indexes=creates_indexes)

    def create(self, missing: Missing) -> None:
        """Create missing indexes and notes; several processes may do so at once.

        Raises:
            ConfigurationError: several documents have the same id, or another process created other
                indexes at the same time.
        """
        for collection, indexes in missing.indexes:
            names = ", ".join(index.name for index in indexes)
            logger.info("creating the indexes %s of %s", names, collection.full_name)
            models = [IndexModel(list(index.keys), **index.options) for index in indexes]
            try:
                collection.create_indexes(models)
            except OperationFailure as error:
                raise _refused(error, collection) from error
        if missing.fields:
            names_of_fields = {"names": {"$each": missing.fields}}
            self._database[_FIELDS].update_one(
                {"_id": "names"}, {"$addToSet": names_of_fields}, upsert=True
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
        return ConfigurationError(f"{where}: {text_of(error)}")
    if error.code == _UNAUTHORIZED:
        return ConfigurationError(
            f"{where}: the user lacks a right; grant the role readWrite ({text_of(error)})"
        )
    return error
