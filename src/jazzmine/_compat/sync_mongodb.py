"""PyMongo's sync classes, under names that both APIs share."""

from __future__ import annotations

from typing import Any, TypeAlias

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection as PyMongoCollection

__all__ = ["Client", "Collection", "Session"]

Client: TypeAlias = MongoClient[dict[str, Any]]
Collection: TypeAlias = PyMongoCollection[dict[str, Any]]
Session: TypeAlias = ClientSession
