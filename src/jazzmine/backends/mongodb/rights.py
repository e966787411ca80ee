"""Check that a user has the rights that a store needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jazzmine.backends.mongodb.documents import Document
from jazzmine.errors import ConfigurationError

__all__ = ["require_rights"]

_READ_AND_WRITE = ("find", "insert", "update", "remove")


def require_rights(
    status: Document, database: str, collections: Sequence[str], *, creates_indexes: bool
) -> None:
    """Raise ConfigurationError if the user lacks a right; the text says how to grant it.

    Args:
        status: the reply to `connectionStatus` with privileges.
        creates_indexes: whether an index is missing.
    """
    user_info = status["authInfo"]
    users = user_info.get("authenticatedUsers")
    privileges = user_info.get("authenticatedUserPrivileges")
    if not users or not privileges:
        return  # the server checks no rights, or does not report them
    needed = [*_READ_AND_WRITE, *(["createIndex"] if creates_indexes else [])]
    for collection in collections:
        granted = _granted(privileges, database, collection)
        lacking = sorted(set(needed) - granted)
        if lacking and "anyAction" not in granted:
            user, home = users[0]["user"], users[0]["db"]
            raise ConfigurationError(
                f"the user {user!r} may not {', '.join(lacking)} in {database}.{collection};"
                f" grant the role readWrite: db.getSiblingDB({home!r}).grantRolesToUser({user!r},"
                f" [{{role: 'readWrite', db: {database!r}}}])"
            )


def _granted(privileges: Sequence[Any], database: str, collection: str) -> set[str]:
    """Return the actions that a user may do in a collection."""
    granted: set[str] = set()
    for privilege in privileges:
        resource = privilege["resource"]
        # An empty name means every database, or every collection.
        if resource.get("anyResource") or (
            resource.get("db") in ("", database) and resource.get("collection") in ("", collection)
        ):
            granted.update(privilege["actions"])
    return granted
