"""PyMongo's classes, for documents that are dicts."""

from __future__ import annotations

from typing import Any, TypeAlias

import pymongo
from pymongo.asynchronous import collection, database
from pymongo.asynchronous.client_session import AsyncClientSession

Client: TypeAlias = pymongo.AsyncMongoClient[dict[str, Any]]
Database: TypeAlias = database.AsyncDatabase[dict[str, Any]]
Collection: TypeAlias = collection.AsyncCollection[dict[str, Any]]
Session: TypeAlias = AsyncClientSession
