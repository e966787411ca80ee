"""PyMongo's async classes, under names that both APIs share."""

from __future__ import annotations

from typing import Any, TypeAlias

from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection

__all__ = ["Client", "Collection", "Session"]

Client: TypeAlias = AsyncMongoClient[dict[str, Any]]
Collection: TypeAlias = AsyncCollection[dict[str, Any]]
Session: TypeAlias = AsyncClientSession
