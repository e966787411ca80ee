"""The keys, and what they seal: known answers, nonces, refusals."""

from __future__ import annotations

import os
from typing import Any

import pytest

from jazzmine.encryption import Keyring, keyring_of
from jazzmine.errors import ConfigurationError, DecryptionError
from tests.encryption.keys import FIRST, SECOND, as_text, keyring

# From "The Galois/Counter Mode of Operation" (McGrew, Viega), test cases 13, 14 and 16: key, nonce,
# plain text, additional data, ciphertext and tag.
KNOWN = [
    ("00" * 32, "00" * 12, "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    (
        "00" * 32,
        "00" * 12,
        "00" * 16,
        "",
        "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919",
    ),
    (
        "feffe9928665731c6d6a8f9467308308" * 2,
        "cafebabefacedbaddecaf888",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ),
]


@pytest.mark.parametrize(("key", "nonce", "plain", "context", "sealed"), KNOWN)
def test_known_answers(
    key: str, nonce: str, plain: str, context: str, sealed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Keyring({"k": bytes.fromhex(key)})
    monkeypatch.setattr(os, "urandom", lambda size: bytes.fromhex(nonce)[:size])

    found = ring.encrypt(bytes.fromhex(plain), bytes.fromhex(context))

    assert found.hex() == nonce + sealed
    assert ring.decrypt("k", found, bytes.fromhex(context), "it").hex() == plain


def test_nonces_never_repeat() -> None:
    ring = keyring(FIRST)

    # Of 32 bits, ten would repeat.
    nonces = {ring.encrypt(b"", b"")[:12] for _ in range(300_000)}

    assert len(nonces) == 300_000


def test_the_first_key_seals_and_all_open() -> None:
    old, both = keyring(FIRST), keyring(SECOND, FIRST)

    assert both.decrypt_text(old.encrypt_text(b"text", b"here"), b"here", "it") == b"text"
    assert both.encrypt_text(b"text", b"here").startswith(f"{SECOND}:")


@pytest.mark.parametrize("place", range(12 + 4 + 16))
def test_a_changed_byte_does_not_open(place: int) -> None:
    sealed = bytearray(keyring(FIRST).encrypt(b"text", b"here"))
    sealed[place] ^= 1

    with pytest.raises(DecryptionError, match="it was changed, cut or moved"):
        keyring(FIRST).decrypt(FIRST, bytes(sealed), b"here", "it")


def test_a_value_of_another_place_does_not_open() -> None:
    with pytest.raises(DecryptionError, match="it was changed, cut or moved"):
        keyring(FIRST).decrypt_text(keyring(FIRST).encrypt_text(b"text", b"here"), b"there", "it")


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


def test_the_environment_gives_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAZZMINE_ENCRYPTION", as_text(SECOND, FIRST))

    found = keyring_of(None)

    assert found is not None
    assert found.ids == (SECOND, FIRST)
    assert repr(found) == "Keyring(k2, k1)"


def test_no_keys_are_no_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAZZMINE_ENCRYPTION", raising=False)

    assert keyring_of(None) is None
