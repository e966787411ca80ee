"""PyMongo's classes, for documents that are dicts."""

from __future__ import annotations

from typing import Any, TypeAlias

import pymongo
from pymongo.synchronous import collection, database
from pymongo.synchronous.client_session import ClientSession

Client: TypeAlias = pymongo.MongoClient[dict[str, Any]]
Database: TypeAlias = database.Database[dict[str, Any]]
Collection: TypeAlias = collection.Collection[dict[str, Any]]
Session: TypeAlias = ClientSession
