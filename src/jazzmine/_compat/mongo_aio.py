"""PyMongo in the awaitable world: its own classes, under names that both worlds share."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

__all__ = ["Client", "Collection", "Database", "Session", "Work", "sleep"]

T = TypeVar("T")

Client: TypeAlias = AsyncMongoClient[dict[str, Any]]
Collection: TypeAlias = AsyncCollection[dict[str, Any]]
Database: TypeAlias = AsyncDatabase[dict[str, Any]]
Session: TypeAlias = AsyncClientSession
Work: TypeAlias = Callable[..., Awaitable[T]]
