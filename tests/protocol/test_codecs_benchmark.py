"""What the benchmark of codecs compares is the same thing: every way reads and writes the same bytes."""

from __future__ import annotations

import pytest
from odradek.protocol.codec import encode

from benchmarks.codecs import best_of
from benchmarks.codecs_of_others import WAYS, by_hand, lowered
from benchmarks.codecs_samples import Sample, samples


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_every_way_writes_the_same_bytes(sample: Sample) -> None:
    data = encode(sample.message, sample.version)
    ways = {name: way(sample, data) for name, way in WAYS.items()}
    assert {name: way.encode() for name, way in ways.items()} == dict.fromkeys(WAYS, data)
    best_of({name: way.decode for name, way in ways.items()}, rounds=1)


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_what_is_written_by_hand_reads_what_lowered_code_reads(sample: Sample) -> None:
    data = encode(sample.message, sample.version)
    expected = (sample.message, len(data))
    assert lowered(sample, data).decode() == by_hand(sample, data).decode() == expected
