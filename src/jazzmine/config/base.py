"""The common part of the configurations of all back ends, and the checks of their values."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, fields
from string import whitespace
from typing import Any, ClassVar

from jazzmine.encryption import Keyring, keyring_of
from jazzmine.errors import ConfigurationError, InvalidAddressError

logger: logging.Logger = logging.getLogger(__name__)

_AROUND = f"{whitespace}\u00a0\u200b\ufeff"


# The options that are the address itself, or must not be in one: addresses are logged.
_ADDRESSES = frozenset({"path", "dsn", "uri", "url", "db", "encryption", "pool"})


@dataclass(frozen=True)
class BackendConfig:
    """The options of one back end; its fields are the accepted keys besides `storage`.

    An option is checked by the type of its default; one without a default is a text. Other checks
    are in `__post_init__` of its class.

    Args:
        encryption: the keys of encrypted values, a `Keyring` or `ID:BASE64[,ID:BASE64…]`; None
            takes the keys in the environment variable JAZZMINE_ENCRYPTION, if it is set.
        encryption_accepts_plain: whether an encrypted store also reads plain values.
    """

    storage: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]] = ()
    # Whether other options in a URL are the driver's.
    has_driver_options: ClassVar[bool] = False
    # The suffixes of a plain path that mean this back end.
    suffixes: ClassVar[tuple[str, ...]] = ()

    encryption: Keyring | str | None = field(default=None, repr=False, kw_only=True)
    encryption_accepts_plain: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encryption", keyring_of(self.encryption))
        for name in ("path", "dsn", "uri", "url", "db", "schema"):
            address = getattr(self, name, None)
            if isinstance(address, os.PathLike):
                address = os.fspath(address)
            if isinstance(address, str):
                object.__setattr__(self, name, trimmed(address))
        for option in fields(self):
            _require(option.name, getattr(self, option.name), option.default)

    @property
    def search_language(self) -> str | None:
        """The language of the option `search`, empty without stems; None without search.

        A store with a search index keeps it in any case.
        """
        search = getattr(self, "search", False)
        return search if isinstance(search, str) else "" if search else None

    @property
    def keyring(self) -> Keyring | None:
        """The keys of the store; None if it is not encrypted."""
        assert not isinstance(self.encryption, str)  # it was read when this was made
        return self.encryption

    @classmethod
    def url_options(cls) -> dict[str, Any]:
        """Return the options that may be in a URL after the address, with their defaults."""
        return {each.name: each.default for each in fields(cls) if each.name not in _ADDRESSES}

    @classmethod
    def require(cls, config: object) -> None:
        """Raise `TypeError` unless the argument of a store's class is such a configuration."""
        if not isinstance(config, cls):
            raise TypeError(
                f"config must be of type {cls.__name__}, not {type(config).__name__}; to open a"
                " store by its URL or a mapping, call initialize()"
            )

    @classmethod
    def from_url(cls, url: str) -> BackendConfig:
        """Return the configuration of a URL with one of the `schemes`, whose options were read.

        By default, nothing may follow the scheme.
        """
        scheme, _, address = url.partition(":")
        if address:
            raise ConfigurationError(f"nothing may follow {scheme}: in the URL, except options")
        return cls()


def path_of(url: str) -> str:
    """Return the path in the URL of a file.

    Raises:
        ConfigurationError: there is none.
        InvalidAddressError: the path begins with two slashes. Other libraries write a relative
            path like that (`sqlite:///agent.db`); here it would be in the root folder.
    """
    scheme, _, path = url.partition(":")
    if path.startswith("//"):
        raise InvalidAddressError(
            f"the path comes directly after {scheme}: - {scheme}:FILE is in the current folder,"
            f" {scheme}:/FOLDER/FILE in /FOLDER"
        )
    if not path:
        raise ConfigurationError(f"the path of the file is missing: write {scheme}:FILE")
    return path


def trimmed(text: str) -> str:
    """Return an address or a name without white space, a byte order mark or quotes around it.

    A line of a file or of a command's output may have them (`docker --env-file` keeps quotes), and
    they would name another store.
    """
    text = text.strip(_AROUND)
    is_quoted = len(text) > 1 and text[0] in "\"'" and text[0] == text[-1]
    return text[1:-1] if is_quoted else text


def require_text(key: str, value: object) -> None:
    """Raise unless the value is a string that is not empty; the error does not contain it."""
    if not isinstance(value, str):
        raise _wrong(key, "a string", value)
    if not value:
        raise ConfigurationError(f"{key} must not be empty")
    if "\0" in value:
        raise ConfigurationError(f"{key} must not hold U+0000")


def _require(key: str, value: object, default: object) -> None:
    """Raise unless the value of an option has the type of its default, and is in its range."""
    if key == "search":
        if not isinstance(value, bool | str) or value == "":
            raise ConfigurationError('search must be True, False or a language such as "english"')
    elif isinstance(default, bool):
        if not isinstance(value, bool):
            raise _wrong(key, "True or False", value)
    elif isinstance(default, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(key, "a number of seconds", value)
        if not 0 < value < float("inf"):
            raise ConfigurationError(f"{key} must be more than 0 s, not {value}")
        if default < 1000 <= value:
            logger.warning("%s is %g s: it is in seconds, not in ms", key, value)
    elif isinstance(default, int):
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(key, "an integer", value)
    elif default is not None:
        require_text(key, value)


def _wrong(key: str, expected: str, value: object) -> ConfigurationError:
    return ConfigurationError(f"{key} must be {expected}, not {type(value).__name__}")
