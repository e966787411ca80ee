"""The recorded text of an error."""

from __future__ import annotations

from traceback import format_tb

from pydantic import ValidationError

from jazzmine.records.storable import storable_text

__all__ = ["text_of", "traceback_of"]

# The longest recorded chain of causes.
_MAX_CAUSES = 8


def text_of(error: object) -> str:
    """Return the class and the text of an error, with its causes and the members of its group.

    Of a cancellation only the class is recorded: its text names tasks by addresses and paths. The
    values that pydantic refused are left out.
    """
    if not isinstance(error, BaseException):
        return storable_text(error)
    return storable_text(
        ", caused by ".join(storable_text(_line(link)) for link in _chain_of(error))
    )


def traceback_of(error: BaseException) -> str | None:
    """Return where an error and its causes were raised, or None for a cancellation."""
    if _is_cancellation(error):
        return None
    parts = []
    for link in reversed(_chain_of(error)):
        frames = "".join(format_tb(link.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{storable_text(_line(link))}\n")
    return storable_text("\nThat was the cause of the next one.\n\n".join(parts))


def _chain_of(error: BaseException) -> list[BaseException]:
    chain = [error]
    while not _is_cancellation(chain[-1]) and len(chain) < _MAX_CAUSES:
        cause = chain[-1].__cause__
        if cause is None or any(cause is link for link in chain):
            break
        chain.append(cause)
    return chain


def _line(error: BaseException) -> str:
    name = type(error).__qualname__
    if _is_cancellation(error):
        return name
    if members := _members_of(error):
        text = f"{storable_text(error)} [{'; '.join(map(text_of, members))}]"
    elif isinstance(error, ValidationError):
        text = _refused_fields(error)
    else:
        text = storable_text(error)
    return f"{name}: {text}" if text else name


def _members_of(error: BaseException) -> tuple[BaseException, ...]:
    members = getattr(error, "exceptions", ())
    return members if isinstance(members, tuple) else ()


def _is_cancellation(error: BaseException) -> bool:
    return not isinstance(error, Exception) and not _members_of(error)


def _refused_fields(error: ValidationError) -> str:
    try:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        fields = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in details)
        return f"{error.title}: {'; '.join(fields)}"
    except Exception:
        return ""
