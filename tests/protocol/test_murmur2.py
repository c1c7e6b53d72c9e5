"""Partitions by the hash of Java's clients."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as other_murmur2
from odradek.protocol.murmur2 import murmur2, partition_of


@given(data=st.binary(max_size=40), count=st.integers(1, 1_000))
def test_hash_is_that_of_another_client(data: bytes, count: int) -> None:
    assert murmur2(data) == other_murmur2(data) & 0xFFFFFFFF
    assert partition_of(data, count) == (other_murmur2(data) & 0x7FFFFFFF) % count
