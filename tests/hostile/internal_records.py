"""Random records of internal topics: those that coordinators wrote, changed in a few bytes, and bytes that none wrote."""

from __future__ import annotations

import random
from pathlib import Path

from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch

KeyAndValue = tuple[bytes | None, bytes | None]
_KINDS = (-32768, -1, 0, 1, 2, 3, 5, 9, 16, 99, 20292, 32767)
_LARGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff", b"\0\0\0\0\0\0\0\0")


def records_of(folder: Path) -> list[KeyAndValue]:
    """The records in a log of a stopped or running broker, without control records."""
    found: list[KeyAndValue] = []
    for file in sorted(folder.glob("*.log")):
        data = file.read_bytes()
        for position, header in iter_headers(data):
            if not header.is_control:
                found += [(one.key, one.value) for one in decode_batch(data, position, header)]
    return found


def changed(rng: random.Random, data: bytes | None) -> bytes | None:
    if data is None:
        return rng.choice([b"", rng.randbytes(8)])
    made = bytearray(data)
    way = rng.randrange(8)
    if way == 0 or len(made) < 8:
        return rng.randbytes(rng.randrange(60))
    if way == 1:
        return bytes(made[: rng.randrange(len(made))])
    if way == 2:
        return bytes(made) + rng.randbytes(rng.randrange(1, 20))
    if way == 3:
        return rng.choice(_KINDS).to_bytes(2, "big", signed=True) + bytes(made[2:])
    if way == 4:
        return None
    if way == 5:
        number = rng.choice(_LARGE)
        at = rng.randrange(len(made) - len(number) + 1) if len(made) > len(number) else 0
        return bytes(made[:at] + number + made[at + len(number) :])
    for _ in range(rng.randrange(1, 4)):
        made[rng.randrange(len(made))] = rng.randrange(256)
    return bytes(made)


def hostile_records(rng: random.Random, known: list[KeyAndValue], count: int) -> list[KeyAndValue]:
    """Changes of known records, mostly of the value alone, so that many keys are right."""
    made: list[KeyAndValue] = []
    for _ in range(count):
        key, value = rng.choice(known)
        key = changed(rng, key) if rng.random() < 0.3 else key
        if key is not None:
            made.append((key, changed(rng, value) if rng.random() < 0.8 else value))
    return made
