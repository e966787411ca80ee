"""The common part of the configurations of all back ends, and the checks of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from string import whitespace
from typing import Any, ClassVar

from jazzmine.closest import hint
from jazzmine.encryption import Keyring, keyring_of
from jazzmine.errors import ConfigurationError, InvalidAddressError

__all__ = [
    "BackendConfig",
    "path_of",
    "refuse_options",
    "require_bool",
    "require_number",
    "require_search",
    "require_seconds",
    "require_text",
    "trimmed",
]

_AROUND = f"{whitespace}\u00a0\u200b\ufeff"


# The options that are the address itself, or must not be in one: addresses are logged.
_ADDRESSES = frozenset({"path", "dsn", "uri", "url", "db", "encryption", "pool"})


@dataclass(frozen=True)
class BackendConfig:
    """The options of one back end; its fields are the accepted keys besides `storage`.

    An option of one name has one check, for all back ends, or is checked in `__post_init__` of its
    class.

    Args:
        encryption: the keys of encrypted values, a `Keyring` or `ID:BASE64[,ID:BASE64…]`; None
            takes the keys in the environment variable JAZZMINE_ENCRYPTION, if it is set.
        encryption_accepts_plain: whether an encrypted store also reads plain values.
    """

    storage: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]] = ()
    # The suffixes of a plain path that mean this back end.
    suffixes: ClassVar[tuple[str, ...]] = ()

    encryption: Keyring | str | None = field(default=None, repr=False, kw_only=True)
    encryption_accepts_plain: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encryption", keyring_of(self.encryption))
        for name in ("path", "dsn", "uri", "url", "db", "schema"):
            if isinstance(address := getattr(self, name, None), str):
                object.__setattr__(self, name, trimmed(address))
        for option in fields(self):
            if option.name in _CHECKS:
                _CHECKS[option.name](option.name, getattr(self, option.name))

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
        known = [field for field in fields(cls) if field.name not in _ADDRESSES]
        own = [field for field in known if field not in fields(BackendConfig)]
        return {field.name: field.default for field in (*own, *(x for x in known if x not in own))}

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
        """Return the configuration that a URL with one of the `schemes` describes.

        By default, nothing may follow the scheme.
        """
        scheme, _, rest = url.partition(":")
        address, _, unknown = rest.partition("?")
        if address:
            raise ConfigurationError(f"nothing may follow {scheme}: in the URL, except options")
        refuse_options(cls, unknown)
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


def refuse_options(kind: type[BackendConfig], query: str) -> None:
    """Raise if a URL's query has more than the options of a back end."""
    if query:
        name = query.partition("=")[0]
        raise ConfigurationError(
            f"unknown option {name!r} in the URL{hint(name, kind.url_options())}"
        )


def require_text(key: str, value: object) -> None:
    """Raise unless the value is a string that is not empty; the error does not contain it."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{key} must be a string, not {type(value).__name__}")
    if not value:
        raise ConfigurationError(f"{key} must not be empty")
    if "\0" in value:
        raise ConfigurationError(f"{key} must not hold U+0000")


def require_bool(key: str, value: object) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{key} must be True or False, not {type(value).__name__}")


def require_search(key: str, value: object) -> None:
    """Raise unless the value is True, False or the name of a language."""
    if not isinstance(value, bool | str) or value == "":
        raise ConfigurationError(f'{key} must be True, False or a language such as "english"')


def require_number(key: str, value: object, least: int) -> None:
    """Raise unless the value is an integer of `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{key} must be an integer, not {type(value).__name__}")
    if value < least:
        raise ConfigurationError(f"{key} must be {least} or more, not {value}")


def trimmed(text: str) -> str:
    """Return an address or a name without the white space around it, or a byte order mark.

    A line of a file or of a command's output may have them, and they would name another store.
    """
    return text.strip(_AROUND)


def require_seconds(key: str, value: object) -> None:
    """Raise unless the value is a positive, finite number (of seconds)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{key} must be a number of seconds, not {type(value).__name__}")
    if not 0 < value < float("inf"):
        raise ConfigurationError(f"{key} must be more than 0 s, not {value}")


_CHECKS: dict[str, Callable[[str, object], None]] = {
    "db": require_text,
    "dsn": require_text,
    "encryption_accepts_plain": require_bool,
    "fsync": require_bool,
    "lease_seconds": require_seconds,
    "lock_timeout": require_seconds,
    "migration_timeout": require_seconds,
    "prepare": require_bool,
    "search": require_search,
    "strict": require_bool,
    "timeout": require_seconds,
    "ttl_seconds": require_seconds,
    "uri": require_text,
    "url": require_text,
}
