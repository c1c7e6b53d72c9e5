"""Java's own key stores: damage, passwords, and entries that are not read. keytool's files: compat_tests/security."""

from __future__ import annotations

import random
import struct

import pytest
from odradek.server.access.java_stores import (
    MOST_ITERATIONS,
    MOST_KEY_BYTES,
    InvalidStore,
    WrongPassword,
    decrypt_key,
    read_java_store,
)

from tests.harness.examples import examples
from tests.server.harness.java_key_stores import key_entry, trusted_entry, written_jks

PASSWORD = "pässword"
KEY = bytes(range(256)) * 4
STORE = written_jks(
    PASSWORD,
    key_entry("second", KEY, [b"own", b"issuer"], "of the key"),
    key_entry("first", b"another", [b"its own"], "of the key"),
    trusted_entry("trusted", b"authority"),
)


def protected(oid: str, parameters: bytes, encrypted: bytes) -> bytes:
    algorithm = der(0x30, der(0x06, bytes.fromhex(oid)) + parameters)
    return der(0x30, algorithm + der(0x04, encrypted))


def der(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x82]) + struct.pack(">H", len(content)) + content


def test_entries_come_in_the_order_of_their_aliases() -> None:
    store = read_java_store(STORE, PASSWORD)
    assert list(store.keys) == [b"first", b"second"]
    assert store.keys[b"second"].chain == (b"own", b"issuer")
    assert store.trusted == {b"trusted": b"authority"}
    assert decrypt_key(store.keys[b"second"].protected, "of the key") == KEY


def test_a_store_opens_without_a_password_as_in_java() -> None:
    changed = STORE[:-1] + bytes([STORE[-1] ^ 1])
    assert read_java_store(changed, None) == read_java_store(STORE, PASSWORD)
    with pytest.raises(WrongPassword):
        read_java_store(changed, PASSWORD)


def test_wrong_passwords_of_store_and_key_are_errors() -> None:
    with pytest.raises(WrongPassword):
        read_java_store(STORE, "password")
    with pytest.raises(WrongPassword):
        decrypt_key(read_java_store(STORE, PASSWORD).keys[b"second"].protected, PASSWORD)


def test_damage_anywhere_is_an_error_of_the_store() -> None:
    for end in range(len(STORE)):
        with pytest.raises(InvalidStore):  # without a password no checksum comes before the entries
            read_java_store(STORE[:end], None)
    rng = random.Random(5)
    for _ in range(examples(2000)):
        data = bytearray(STORE)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            for entry in read_java_store(bytes(data), None).keys.values():
                decrypt_key(entry.protected, "of the key")
        except (InvalidStore, WrongPassword):
            pass


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (struct.pack(">4sII", b"\xfe\xed\xfe\xed", 3, 0), "version 3"),
        (struct.pack(">4sII", b"\xfe\xed\xfe\xed", 2, 2**32 - 1), "ends within an entry"),
        (struct.pack(">4sII", b"\xfe\xed\xfe\xed", 2, 0) + b"x", "bytes follow"),
        (struct.pack(">4sIIIHQ", b"\xce\xce\xce\xce", 2, 1, 3, 0, 0), "neither a private key nor a certificate"),
        (b"", "within its header"),
    ],
)
def test_a_file_that_is_no_store_says_why(content: bytes, words: str) -> None:
    with pytest.raises(InvalidStore, match=words):
        read_java_store(content + bytes(20), None)


@pytest.mark.parametrize("iterations", [0, MOST_ITERATIONS + 1, 2**64])
def test_iterations_of_a_key_are_bounded(iterations: int) -> None:
    number = iterations.to_bytes(9, "big")
    pair = der(0x30, der(0x04, bytes(8)) + der(0x02, number))
    with pytest.raises(InvalidStore, match="iterations"):
        decrypt_key(protected("2b060104012a021301", pair, bytes(16)), PASSWORD)


def test_the_size_of_a_key_is_bounded() -> None:
    with pytest.raises(InvalidStore, match="more than 65536 bytes"):
        decrypt_key(bytes(MOST_KEY_BYTES + 1), PASSWORD)


def test_an_unknown_protection_of_a_key_is_named_as_such() -> None:
    with pytest.raises(InvalidStore, match="algorithm"):
        decrypt_key(protected("2a864886f70d010503", b"", bytes(16)), PASSWORD)


def test_no_text_shows_a_protected_key() -> None:
    store = read_java_store(STORE, PASSWORD)
    assert store.keys[b"second"].protected.hex() not in repr(store)
    assert repr(store.keys[b"second"].protected)[2:20] not in repr(store)
