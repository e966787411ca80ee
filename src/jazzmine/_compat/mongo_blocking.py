"""PyMongo in the blocking world: its own classes, under names that both worlds share."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any, TypeAlias, TypeVar

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection as PyMongoCollection
from pymongo.database import Database as PyMongoDatabase

__all__ = ["Client", "Collection", "Database", "Session", "Work", "sleep"]

T = TypeVar("T")

Client: TypeAlias = MongoClient[dict[str, Any]]
Collection: TypeAlias = PyMongoCollection[dict[str, Any]]
Database: TypeAlias = PyMongoDatabase[dict[str, Any]]
Session: TypeAlias = ClientSession
Work: TypeAlias = Callable[..., T]
