"""The keys of encrypted stores, and AES-256-GCM with them."""

from __future__ import annotations

import os
import re
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from string import whitespace
from typing import Any

from pydantic_core import CoreConfig, SchemaValidator, core_schema

from jazzmine.errors import ConfigurationError, DecryptionError
from jazzmine.extras import extra

#: The environment variable with the keys.
ENCRYPTION = "JAZZMINE_ENCRYPTION"

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_AROUND = f"{whitespace}\"'"  # `docker --env-file` keeps quotes
_KEY_BYTES, _NONCE_BYTES, _TAG_BYTES = 32, 12, 16

# Pydantic decodes base64 in a fifth of the time that `binascii` takes.
_decoded: Callable[[Any], bytes] = SchemaValidator(
    core_schema.bytes_schema(), CoreConfig(val_json_bytes="base64")
).validate_strings


class Keyring:
    """The keys of an encrypted store: the first one encrypts, each of them decrypts.

    Args:
        keys: the keys by their ids, 32 random bytes each. An id is stored with each value, so that
            its key can be found; it has 1 to 64 letters, digits, dots, dashes or underscores.

    Raises:
        ConfigurationError: there is no key, an id or a key has another form, or two are equal.
        ImportError: `cryptography` is not installed.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not isinstance(keys, Mapping) or not keys:
            raise ConfigurationError("a keyring needs a mapping of ids to keys, at least one")
        ciphers: dict[str, Any] = {}
        for key_id, key in keys.items():
            if not isinstance(key_id, str) or not _ID.fullmatch(key_id):
                raise ConfigurationError(
                    "the id of a key has 1 to 64 letters, digits, dots, dashes or underscores"
                )
            if not isinstance(key, (bytes, bytearray)) or len(key) != _KEY_BYTES:
                raise ConfigurationError(f"the key {key_id!r} is not {_KEY_BYTES} bytes")
            ciphers[key_id] = _cipher(bytes(key))
        if len({bytes(key) for key in keys.values()}) < len(keys):
            raise ConfigurationError("two keys of the keyring are equal")
        self._ciphers = ciphers
        self._first = next(iter(ciphers))

    @classmethod
    def from_text(cls, text: str) -> Keyring:
        """Read `ID:BASE64[,ID:BASE64…]`; errors do not repeat it.

        Raises:
            ConfigurationError: it has another form.
        """
        keys: dict[str, bytes] = {}
        for part in text.strip(_AROUND).split(","):
            key_id, separator, encoded = part.strip().partition(":")
            if not separator or key_id in keys:
                raise ConfigurationError("encryption must be ID:BASE64[,ID:BASE64…], each id once")
            try:
                keys[key_id] = b64decode(encoded, validate=True)
            except ValueError:
                raise ConfigurationError(
                    "a key of encryption is not base64, with + and / and all its ="
                ) from None
        return cls(keys)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the keys; that of the first one, which encrypts, comes first."""
        return tuple(self._ciphers)

    @property
    def first_id(self) -> str:
        """The id of the key that encrypts."""
        return self._first

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._ciphers)})"

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Return the nonce, the ciphertext and the tag of a value.

        Args:
            plain: the value.
            context: identifies its place; with another context, `decrypt` raises.
        """
        nonce = os.urandom(_NONCE_BYTES)
        ciphertext: bytes = self._ciphers[self._first].encrypt(nonce, plain, context)
        return nonce + ciphertext

    def decrypt(self, key_id: str, ciphertext: bytes, context: bytes, name: str) -> bytes:
        """Decrypt a result of `encrypt`.

        Args:
            key_id: the key that it was encrypted with.
            ciphertext: the result of `encrypt`.
            context: the context of `encrypt`.
            name: the name of the value, for the text of an error.

        Raises:
            DecryptionError: the key is not in the keyring, or the value was changed or moved.
        """
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            known = key_id if _ID.fullmatch(key_id) else "of a malformed id"
            raise DecryptionError(
                f"{name} is encrypted with the key {known!r}; the keyring has"
                f" {', '.join(map(repr, self._ciphers))}"
            )
        try:
            plain: bytes = cipher.decrypt(
                ciphertext[:_NONCE_BYTES], ciphertext[_NONCE_BYTES:], context
            )
        except Exception:  # InvalidTag, or a value that is too short
            raise DecryptionError(
                f"{name} does not open with the key {key_id!r}: it was changed, cut or moved from"
                " elsewhere, or this is another key with that id"
            ) from None
        return plain

    # As text, for values in JSON

    def encrypt_text(self, plain: bytes, context: bytes) -> str:
        """Encrypt a value, and return it as `ID:BASE64`."""
        encoded = b2a_base64(self.encrypt(plain, context), newline=False)
        return f"{self._first}:{encoded.decode()}"

    def decrypt_text(self, encrypted: str, context: bytes, name: str) -> bytes:
        """Decrypt a result of `encrypt_text`; raise as `decrypt`."""
        key_id, _, text = encrypted.partition(":")
        try:
            raw = _decoded(text)
        except ValueError:
            raw = b""
        return self.decrypt(key_id, raw, context, name)


def keyring_of(encryption: Keyring | str | None) -> Keyring | None:
    """Return the keyring of the option `encryption`, or of the environment; None without keys.

    Raises:
        ConfigurationError: it is not a keyring.
        ImportError: `cryptography` is not installed.
    """
    if isinstance(encryption, Keyring):
        return encryption
    if encryption is None:
        text = os.environ.get(ENCRYPTION)
        if not text:
            return None
        try:
            return Keyring.from_text(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"{ENCRYPTION}: {error}") from None
    if not isinstance(encryption, str):
        kind = type(encryption).__name__
        raise ConfigurationError(f"encryption must be a Keyring or a string, not {kind}")
    return Keyring.from_text(encryption)


def context(kind: str, field: str, owner: str, name: str) -> bytes:
    """Return the context that an encrypted value is bound to; no two values have the same.

    Args:
        kind, field: the kind of the record, and its field.
        owner: the conversation, or the namespace, of the record.
        name: identifies the record there.
    """
    return _beginning(kind, field, owner) + name.encode(errors="surrogatepass")


@lru_cache(maxsize=1000)
def _beginning(kind: str, field: str, owner: str) -> bytes:
    # The length tells where the owner ends, whatever it and the name contain.
    text = f"jazzmine 1 {kind} {field} {len(owner)} {owner} "
    return text.encode(errors="surrogatepass")


def require_accepted(accepts_plain: bool, name: str) -> None:
    """Raise `DecryptionError` for a plain value, unless the store accepts plain ones."""
    if not accepts_plain:
        raise DecryptionError(
            f"{name} is not encrypted, in an encrypted store; encryption_accepts_plain=True reads"
            " it, and `jazzmine rekey` then encrypts it"
        )


def _cipher(key: bytes) -> Any:
    with extra("encryption", "encryption"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(key)
