"""The implementations that the codec benchmark compares are equivalent: they decode and encode the same bytes."""

from __future__ import annotations

import pytest
from odradek.protocol.codec import encode

from benchmarks.codecs import best_of
from benchmarks.codecs_of_others import WAYS, by_hand, lowered
from benchmarks.codecs_samples import Sample, samples


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_all_implementations_encode_same_bytes(sample: Sample) -> None:
    data = encode(sample.message, sample.version)
    ways = {name: way(sample, data) for name, way in WAYS.items()}
    assert {name: way.encode() for name, way in ways.items()} == dict.fromkeys(WAYS, data)
    best_of({name: way.decode for name, way in ways.items()}, rounds=1)


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_handwritten_decoder_matches_lowered_decoder(sample: Sample) -> None:
    data = encode(sample.message, sample.version)
    expected = (sample.message, len(data))
    assert lowered(sample, data).decode() == by_hand(sample, data).decode() == expected
