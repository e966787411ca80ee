"""The keys, and what they seal: known answers, nonces, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from jazzmine.encryption import Keyring, keyring_of
from jazzmine.errors import ConfigurationError, DecryptionError
from tests.encryption.keys import FIRST, SECOND, as_text, keyring


def test_the_first_key_seals_and_all_open() -> None:
    old, both = keyring(FIRST), keyring(SECOND, FIRST)

    assert both.decrypt_text(old.encrypt_text(b"text", b"here"), b"here", "it") == b"text"
    assert both.encrypt_text(b"text", b"here").startswith(f"{SECOND}:")
    assert len({old.encrypt_text(b"text", b"here") for _ in range(100)}) == 100  # by their nonces


@pytest.mark.parametrize("place", range(12 + 4 + 16))
def test_a_changed_byte_does_not_open(place: int) -> None:
    sealed = bytearray(keyring(FIRST).encrypt(b"text", b"here"))
    sealed[place] ^= 1

    with pytest.raises(DecryptionError, match="it was changed, cut or moved"):
        keyring(FIRST).decrypt(FIRST, bytes(sealed), b"here", "it")


def test_an_unknown_key_is_named_and_the_text_is_not() -> None:
    sealed = keyring(FIRST).encrypt_text(b"xylophone", b"here")

    with pytest.raises(DecryptionError, match=r"encrypted with the key 'k1'; .* 'k2'") as raised:
        keyring(SECOND).decrypt_text(sealed, b"here", "it")

    assert sealed.partition(":")[2] not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"": bytes(32)},
        {"a b": bytes(32)},
        {"a" * 65: bytes(32)},
        {"a": bytes(31)},
        {"a": "0" * 32},
        {"a": bytes(32), "b": bytes(32)},
        [("a", bytes(32))],
    ],
)
def test_a_wrong_keyring_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError):
        Keyring(given)


@pytest.mark.parametrize("text", ["c2VjcmV0", "k1", "k1:c2VjcmV0", "k1:c2Vj cmV0", "k1:secret!"])
def test_a_wrong_text_is_refused_and_not_repeated(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAZZMINE_ENCRYPTION", text)

    with pytest.raises(ConfigurationError, match="JAZZMINE_ENCRYPTION") as raised:
        keyring_of(None)

    assert "c2V" not in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("around", ["", "'", '"', "\n"], ids=repr)
def test_the_environment_gives_the_keys(monkeypatch: pytest.MonkeyPatch, around: str) -> None:
    monkeypatch.setenv("JAZZMINE_ENCRYPTION", around + as_text(SECOND, FIRST) + around)

    found = keyring_of(None)

    assert found is not None
    assert found.ids == (SECOND, FIRST)
    assert repr(found) == "Keyring(k2, k1)"


def test_no_keys_are_no_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAZZMINE_ENCRYPTION", raising=False)

    assert keyring_of(None) is None
