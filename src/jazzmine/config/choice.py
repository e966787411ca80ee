"""The choice of a configuration's class by a mapping, a URL or the environment."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, cast
from urllib.parse import unquote_plus

from jazzmine.closest import hint
from jazzmine.config.base import BackendConfig, trimmed
from jazzmine.config.message_stores import (
    JSONStoreConfig,
    MemoryMessagesConfig,
    MongoDBConfig,
    PostgresConfig,
    SQLiteConfig,
)
from jazzmine.config.working_memories import (
    MemoryStoreConfig,
    PostgresMemoryConfig,
    RedisConfig,
    SQLiteMemoryConfig,
)
from jazzmine.errors import ConfigurationError, InvalidAddressError

# The first class of each tuple is the default.
_MESSAGE_STORES: tuple[type[BackendConfig], ...] = (
    JSONStoreConfig,
    MemoryMessagesConfig,
    SQLiteConfig,
    PostgresConfig,
    MongoDBConfig,
)
_WORKING_MEMORIES: tuple[type[BackendConfig], ...] = (
    MemoryStoreConfig,
    RedisConfig,
    SQLiteMemoryConfig,
    PostgresMemoryConfig,
)
_LONG_TERM_MEMORIES: tuple[type[BackendConfig], ...] = (
    MemoryMessagesConfig,
    SQLiteConfig,
    PostgresConfig,
    MongoDBConfig,
)


# These classes have the options of the other kinds of store, too.
_SHARED: tuple[type[BackendConfig], ...] = (
    MemoryStoreConfig,
    SQLiteMemoryConfig,
    PostgresMemoryConfig,
)

_NAMES = {
    _MESSAGE_STORES: "message store",
    _WORKING_MEMORIES: "working memory",
    _SHARED: "place for all three kinds of store",
}

logger: logging.Logger = logging.getLogger(__name__)

# One letter is a drive of Windows.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)

# The texts of an option in a URL.
_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}

Value = bool | int | float | str | None
Address = Mapping[str, object] | str | os.PathLike[str] | None


# Each of these functions returns the configuration for an argument of `initialize`, or raises
# `ConfigurationError`: an unknown storage or key, or a value of a wrong type. A URL whose scheme
# names no back end is an `InvalidAddressError`.


def message_store_config(config: Address) -> BackendConfig:
    """Return the configuration for the argument of `MessageStore.initialize`."""
    return _read(config, _MESSAGE_STORES, "JAZZMINE_MESSAGE_STORE")


def working_memory_config(config: Address) -> BackendConfig:
    """Return the configuration for the argument of `WorkingMemoryStore.initialize`."""
    return _read(config, _WORKING_MEMORIES, "JAZZMINE_WORKING_MEMORY")


def long_term_memory_config(config: Address) -> BackendConfig:
    """Return the configuration for the argument of `LongTermMemoryStore.initialize`."""
    found = _read(config, _LONG_TERM_MEMORIES, "JAZZMINE_LONG_TERM_MEMORY")
    if found.search_language is not None:
        raise ConfigurationError("search is an option of message stores; items have it always")
    return found


def shared_config(config: Mapping[str, object] | str | os.PathLike[str]) -> BackendConfig:
    """Return the configuration for the argument of `open_stores`."""
    if config is None:
        raise ConfigurationError("config must be a mapping, a URL or a path, not None")
    return _read(config, _SHARED, "")


def _read(config: Address, kinds: tuple[type[BackendConfig], ...], variable: str) -> BackendConfig:
    if config is None:
        return _read_environment(variable, kinds)
    if isinstance(config, str):
        return _read_url(trimmed(config), kinds)
    if isinstance(config, Mapping):
        return _read_mapping(config, kinds)
    if isinstance(config, os.PathLike):
        return _read_path(os.fsdecode(config), kinds)
    raise ConfigurationError(
        f"config must be a mapping, a URL, a path or None, not {type(config).__name__}"
    )


def _read_environment(variable: str, kinds: tuple[type[BackendConfig], ...]) -> BackendConfig:
    """Read the URL in an environment variable, or the default; an error names the variable."""
    url = trimmed(os.environ.get(variable, ""))
    if not url:
        default = _read_mapping({}, kinds)
        # What is in memory is lost, and no other process has it.
        level = logging.WARNING if default.storage == "memory" else logging.INFO
        logger.log(level, "%s is not set, and no configuration given: %r", variable, default)
        return default
    try:
        return _read_url(url, kinds)
    except ConfigurationError as error:
        raise type(error)(f"{variable}: {error}") from None


def _read_url(url: str, kinds: tuple[type[BackendConfig], ...]) -> BackendConfig:
    scheme = url.partition(":")[0].lower()
    for kind in kinds:
        if scheme in kind.schemes:
            address, options = _split_options(url, kind)
            changes: dict[str, Any] = {**options}
            return replace(kind.from_url(address), **changes)
    if not _SCHEME.match(url):
        return _read_path(url, kinds)
    # The text does not repeat the URL, which may contain a password.
    known = [f"{scheme}:" for kind in kinds for scheme in kind.schemes]
    if any(scheme in kind.schemes for kind in (*_MESSAGE_STORES, *_WORKING_MEMORIES)):
        raise InvalidAddressError(
            f"{scheme}: is no {_NAMES.get(kinds, 'long-term memory')}; allowed: {', '.join(known)}"
        )
    raise InvalidAddressError(f"the URL names no known storage{hint(f'{scheme}:', known)}")


def _split_options(url: str, kind: type[BackendConfig]) -> tuple[str, dict[str, Value]]:
    """Return a URL without a back end's options, and the values of these."""
    address, mark, query = url.partition("?")
    options: dict[str, Value] = {}
    rest = []
    defaults = kind.url_options()
    for part in query.split("&"):
        name, separator, value = part.partition("=")
        if name == "encryption":
            raise ConfigurationError(
                "encryption cannot be in a URL, because URLs are logged: set JAZZMINE_ENCRYPTION,"
                " or give the option in a mapping"
            )
        if separator and name in defaults:
            options[name] = _option(name, unquote_plus(value), defaults[name])
        elif kind.has_driver_options:
            rest.append(part)
        elif part:
            raise ConfigurationError(f"unknown option {name!r} in the URL{hint(name, defaults)}")
    return (f"{address}{mark}{'&'.join(rest)}" if rest else address), options


def _option(name: str, text: str, default: Value) -> Value:
    """Return a value of the type of the default; without one it is a text."""
    if default is None or (name == "search" and text.lower() not in _BOOLEANS):  # a language
        return text
    try:
        return _BOOLEANS[text.lower()] if isinstance(default, bool) else type(default)(text)
    except (KeyError, ValueError):
        kinds = {bool: "true or false", int: "an integer", float: "a number"}
        raise ConfigurationError(f"{name} must be {kinds[type(default)]}, in the URL too") from None


def _read_path(path: str, kinds: tuple[type[BackendConfig], ...]) -> BackendConfig:
    """Choose the back end by the suffix of a path, which no error repeats: it may be secret."""
    files = [kind for kind in kinds if kind.suffixes]
    for kind in files:
        if path.lower().endswith(kind.suffixes):
            return _read_mapping({"storage": kind.storage, "path": path}, kinds)
    ends = "; ".join(f"{', '.join(kind.suffixes)}: {kind.storage}" for kind in files)
    urls = " or ".join(f"{kind.schemes[0]}:PATH" for kind in files)
    raise ConfigurationError(
        f"the end of the path does not say what is stored there ({ends}); write {urls}"
    )


def _read_mapping(
    config: Mapping[str, object], kinds: tuple[type[BackendConfig], ...]
) -> BackendConfig:
    options = dict(config)
    storage = options.pop("storage", kinds[0].storage)
    by_name = {kind.storage: kind for kind in kinds}
    if not isinstance(storage, str):
        raise ConfigurationError(f"storage must be a string, not {type(storage).__name__}")
    kind = by_name.get(storage.lower())
    if kind is None:
        raise ConfigurationError(f"unknown storage {storage!r}{hint(storage, by_name)}")
    known = fields(kind)
    names = [option.name for option in known]
    for key in options:
        if key not in names:
            # Perhaps the key "storage" was forgotten: this storage is the default.
            others = [repr(each.storage) for each in kinds if key in each.__dataclass_fields__]
            meant = f"; it is one of {' and '.join(others)}" if others else ""
            default = "" if "storage" in config else ", the default"
            raise ConfigurationError(
                f"unknown key {key!r} for storage {kind.storage!r}{default}"
                f"{meant or hint(str(key), ['storage', *names])}"
            )
    for option in known:
        if option.default is MISSING and option.name not in options:
            raise ConfigurationError(f"storage {kind.storage!r} needs the key {option.name!r}")
    if "storage" not in config:
        _require_own_suffix(options.get("path"), kind, kinds)
    return kind(**cast("dict[str, Any]", options))


def _require_own_suffix(
    path: object, kind: type[BackendConfig], kinds: tuple[type[BackendConfig], ...]
) -> None:
    """Raise if the end of a path means another back end than the default, such as `agent.db`."""
    name = os.fsdecode(path) if isinstance(path, str | os.PathLike) else ""
    for other in kinds:
        if other is not kind and other.suffixes and name.lower().endswith(other.suffixes):
            raise ConfigurationError(
                f"the end of the path means storage {other.storage!r}, and the default is"
                f" {kind.storage!r}: give the key 'storage'"
            )
