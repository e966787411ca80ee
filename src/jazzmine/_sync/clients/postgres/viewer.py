"""Run the statements of a back end that is limited to a user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jazzmine.backends.postgres.statements import scoped, seen
from jazzmine.backends.postgres.text import to_text

if TYPE_CHECKING:
    from jazzmine._sync.clients.postgres.client import PostgresClient
    from jazzmine.backends.postgres.attempts import Parameters

__all__ = ["ViewersClient"]


class ViewersClient:
    """Runs statements so that they find and change only what one user sees.

    Args:
        client: runs them.
        user_id: the user.
    """

    def __init__(self, client: PostgresClient, user_id: str) -> None:
        self._client = client
        self._viewer = to_text(user_id)

    def rows(
        self, sql: str, parameters: Parameters, *, prepare: bool | None = None
    ) -> list[Any]:
        """Run a query and return its rows."""
        return self._client.rows(seen(sql), self._with_viewer(parameters), prepare=prepare)

    def stream(self, sql: str, size: int) -> Iterator[list[Any]]:
        """Yield the rows of a query as they all were at one moment."""
        return self._client.stream(seen(sql), size, self._with_viewer({}))

    def write(
        self, sql: str, parameters: Parameters, *, line: str = "", is_repeatable: bool = True
    ) -> str:
        """Run a write, and return its answer."""
        return self._client.write(
            scoped(sql),
            self._with_viewer(parameters),
            # A call does not wait for those of others before it is known whose the records are.
            line=f"{line}\0{self._viewer}",
            is_repeatable=is_repeatable,
        )

    def _with_viewer(self, parameters: Parameters) -> Parameters:
        return {**parameters, "viewer": self._viewer}
