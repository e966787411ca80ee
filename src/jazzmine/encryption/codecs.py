"""The codecs of a store that is opened with keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jazzmine.encryption.items import ItemCodec
from jazzmine.encryption.records import RecordCodec
from jazzmine.errors import ConfigurationError

if TYPE_CHECKING:
    from jazzmine.config import BackendConfig

__all__ = ["NO_SEARCH", "item_codec", "record_codec"]

NO_SEARCH = (
    "search and encryption exclude each other: a search index is not encrypted; without keys,"
    " `jazzmine index --off` removes it"
)


def record_codec(config: BackendConfig) -> RecordCodec | None:
    """Return the codec of a message store; None if its configuration has no keys.

    Raises:
        ConfigurationError: it has keys and a search index.
    """
    if config.keyring is None:
        return None
    if config.search_language is not None:
        raise ConfigurationError(NO_SEARCH)
    return RecordCodec(config.keyring, config.encryption_accepts_plain)


def item_codec(config: BackendConfig) -> ItemCodec | None:
    """Return the codec of a long-term memory; None if its configuration has no keys."""
    if config.keyring is None:
        return None
    return ItemCodec(config.keyring, config.encryption_accepts_plain)
