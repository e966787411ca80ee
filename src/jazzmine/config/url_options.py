"""The options in the URL of a store: `postgresql://…?schema=agents&pool_max=5`."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote_plus

from jazzmine.errors import ConfigurationError

__all__ = ["split_options"]

Value = bool | int | float | str | None

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def split_options(url: str, defaults: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """Return a URL without a back end's options, and the values of these.

    Everything else stays in the URL, for the driver or as part of a file's path.

    Args:
        defaults: the options that may be in the URL, with their defaults.

    Raises:
        ConfigurationError: the value of an option cannot be read, or the URL has keys.
    """
    address, mark, query = url.partition("?")
    options: dict[str, Value] = {}
    rest = []
    for part in query.split("&"):
        name, separator, value = part.partition("=")
        if name == "encryption":
            raise ConfigurationError(
                "encryption cannot be in a URL, because URLs are logged: set JAZZMINE_ENCRYPTION,"
                " or give the option in a mapping"
            )
        if separator and name in defaults:
            options[name] = _read(name, unquote_plus(value), defaults[name])
        else:
            rest.append(part)
    if not options:
        return url, {}
    return (f"{address}{mark}{'&'.join(rest)}" if rest else address), options


def _read(name: str, text: str, default: Value) -> Value:
    """Return a value of the type of the default; without one it is a text."""
    if default is None:
        return text
    if isinstance(default, bool):
        if name == "search" and text.lower() not in _TRUE + _FALSE:
            return text  # a language
        if text.lower() not in _TRUE + _FALSE:
            raise ConfigurationError(f"{name} must be true or false, in the URL too")
        return text.lower() in _TRUE
    try:
        return type(default)(text)
    except ValueError:
        kind = "an integer" if isinstance(default, int) else "a number"
        raise ConfigurationError(f"{name} must be {kind}, in the URL too") from None
