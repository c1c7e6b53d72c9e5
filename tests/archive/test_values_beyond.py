"""Values with fields beyond the columns are found by their structures as they are by reading each of them."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from odradek.archive import values_beyond as module
from odradek.archive.values_beyond import ValuesBeyond, has_more, names_of

from tests.harness.examples import examples

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("sub", pa.struct([("x", pa.int64()), ("deep", pa.struct([("y", pa.string())]))])),
        ("items", pa.list_(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))]))),
        ("tags", pa.list_(pa.string())),
        ("", pa.string()),
    ]
)
NAMES = ("id", "name", "sub", "items", "tags", "x", "y", "a", "b", "c", "deep", "Id", "more", "", "a.b", 'q"', "\u00e9")
ODD = (
    b"{", b"nul", b'{"id":1} x', b'{"id":NaN}', b"\xff\xfe", b"", b'{"sub":{"x":1},"sub":{"z":2}}', b'{"\\ud800":1}',
    b'{"id":1,}', b'{"sub":' * 300 + b"1" + b"}" * 300, b"[" * 3000, b'{"sub":{"z":null}}', b'{"more":null}', b"7",
    b'{"sub":{}}', b'{"items":[]}', b'{"items":[{"a":1},{"more":1}]}', b'{"items":[1,{"more":1}]}', b'{"id":{"z":1}}',
)  # fmt: skip


def expected(texts: list[bytes | None]) -> list[str | None]:
    """Each value read in Python."""
    found: list[str | None] = []
    for text in texts:
        try:
            value = None if text is None else json.loads(text.decode())
        except (ValueError, RecursionError):
            value = None
        is_beyond = isinstance(value, dict) and has_more(value, names_of(KIND))
        found.append(text.decode() if is_beyond and text is not None else None)
    return found


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 4 else 5)
    if kind < 5:
        return rng.choice((None, 1, -2.5, "text", True, "2020-01-01", 10**30))
    if kind < 7:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {rng.choice(NAMES): random_value(rng, depth + 1) for _ in range(rng.randrange(4))}


@pytest.mark.parametrize("seed", range(examples(40)))
@pytest.mark.parametrize("most", [1, 1_000])
def test_structures_find_what_reading_each_value_finds(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_STRUCTURES", most)
    rng = random.Random(seed)
    texts: list[bytes | None] = []
    for _ in range(200):
        shown = {name: random_value(rng, 1) for name in rng.sample(NAMES, rng.randrange(5))}
        texts.append(rng.choice((None, rng.choice(ODD), *[json.dumps(shown).encode()] * 8)))
    assert ValuesBeyond().texts(pa.array(texts, pa.binary()), KIND).to_pylist() == expected(texts)


def test_values_within_the_columns_are_not_read_in_python() -> None:
    texts = [json.dumps({"id": n, "name": None, "sub": {"x": n}, "tags": ["t"], "gone": None}) for n in range(50)]
    assert ValuesBeyond().rows_to_read(pa.array(texts), names_of(KIND)) == []
