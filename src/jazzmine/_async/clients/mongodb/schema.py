"""Checks the collections when a store is opened, and creates missing indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo.errors import OperationFailure

from jazzmine._async.clients.mongodb.types import Collection, Database
from jazzmine._compat.concurrency import AsyncWork as Work
from jazzmine.backends.mongodb.documents import HIDDEN
from jazzmine.backends.mongodb.errors import text_of
from jazzmine.backends.mongodb.indexes import FORMAT, MESSAGES, Index
from jazzmine.backends.mongodb.words import SEARCH_INDEXES
from jazzmine.errors import ConfigurationError

# The collection that notes which collections are ours, by their fields `id`, the number of their
# format, and the language of the search index. Version 1.2 noted all fields and no format.
_NOTES = "jazzmine_fields"


class Step(NamedTuple):
    """A change that opening a store makes, and a phrase for it."""

    text: str
    take: Work[None]


class Schema:
    """The collections of a store, which may belong to another application.

    Args:
        database: the database.
        indexes: the indexes of each collection, by its name.
    """

    def __init__(self, database: Database, indexes: Mapping[str, Sequence[Index]]) -> None:
        self._database = database
        self._indexes = indexes
        self._marks = [f"{name}.id" for name, of_name in indexes.items() if of_name]

    async def missing(self) -> list[Step]:
        """Return the steps that create missing indexes and the note, without taking them.

        Raises:
            ConfigurationError: a collection belongs to another application, a newer version has
                stored documents, or the user lacks a right.
        """
        noted_format = await self._noted_format()
        if noted_format is None:
            await self._require_own()
        steps = []
        for name, wanted in self._indexes.items():
            collection = self._database[name]
            try:
                # Nothing is deleted: the server checks the right to write.
                await collection.delete_one({"_id": ObjectId()})
                indexes = await _missing_of(collection, wanted)
            except OperationFailure as error:
                raise _refused(error, collection) from error
            if indexes:
                names = ", ".join(index.model.document["name"] for index in indexes)
                text = f"create the indexes {names} of {collection.full_name}"
                steps.append(Step(text, partial(_create, collection, indexes)))
        if noted_format != FORMAT:
            steps.append(Step(f"note the collections and their format in {_NOTES}", self._note))
        return steps

    async def _noted_format(self) -> int | None:
        """Return the format of the collections, 0 for that of version 1.2, None without a note."""
        noted = await self.noted("names") or {}
        number: int = noted.get("format", 0)
        if number > FORMAT:
            raise ConfigurationError(
                f"a newer version of jazzmine has stored records in {self._database.name!r};"
                " install that version (nothing was changed)"
            )
        return number if set(self._marks) <= set(noted.get("names", ())) else None

    async def _require_own(self) -> None:
        """Raise if there are documents, unless another process has noted the collections now."""
        for name in self._indexes:
            collection = self._database[name]
            if await collection.find_one({}, {"_id": 1}) is None:
                continue
            if await self._noted_format() is not None:
                return
            raise ConfigurationError(
                f"the collection {collection.full_name!r} holds documents that this version of"
                " jazzmine has not stored; if jazzmine 0.1 has, bring them into another"
                " database with `jazzmine adopt FROM TO`, else choose another database"
                " (nothing was changed)"
            )

    async def _note(self) -> None:
        marks = {"names": {"$each": self._marks}}
        update = {"$addToSet": marks, "$set": {"format": FORMAT}}
        await self._database[_NOTES].update_one({"_id": "names"}, update, upsert=True)

    async def noted(self, name: str) -> dict[str, Any] | None:
        """Return the note under a name, or None."""
        note: dict[str, Any] | None = await self._database[_NOTES].find_one({"_id": name})
        return note

    async def change_search(self, language: str | None) -> None:
        """Make the search indexes and note the language; or remove them with all entries."""
        notes, messages, own = self._database[_NOTES], self._database[MESSAGES], {"_id": "search"}
        if language is not None:
            if indexes := await _missing_of(messages, SEARCH_INDEXES):
                await _create(messages, indexes)
            is_empty = await messages.find_one({}, {"_id": 1}) is None
            state = {**own, "language": language, "is_complete": is_empty}
            await notes.replace_one(own, state, upsert=True)
            return
        await notes.delete_one(own)
        is_searched = {"search_language": {"$exists": True}}
        await messages.update_many(is_searched, {"$unset": dict.fromkeys(HIDDEN, "")})
        for description in await (await messages.list_indexes()).to_list():
            if any(index.is_same(description) for index in SEARCH_INDEXES):
                await messages.drop_index(description["name"])

    async def complete_search(self, language: str) -> None:
        """Note that all messages are in the index of a language."""
        of_language = {"_id": "search", "language": language}
        await self._database[_NOTES].update_one(of_language, {"$set": {"is_complete": True}})


async def _missing_of(collection: Collection, wanted: Sequence[Index]) -> list[Index]:
    existing = await (await collection.list_indexes()).to_list()
    return [index for index in wanted if not any(map(index.is_same, existing))]


async def _create(collection: Collection, indexes: Sequence[Index]) -> None:
    """Create indexes; several processes may do so at once."""
    try:
        await collection.create_indexes([index.model for index in indexes])
    except OperationFailure as error:
        raise _refused(error, collection) from error


def _refused(error: OperationFailure, collection: Collection) -> Exception:
    """Return the error to raise if the server refuses a command about a collection."""
    if error.timeout:
        return error
    return ConfigurationError(
        f"MongoDB refused to prepare {collection.full_name!r}: {text_of(error)}; grant the user the"
        " role readWrite, or drop the index of another application"
    )
