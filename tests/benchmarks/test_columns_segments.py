"""Segments of the benchmark of growing topics: readable from the first offset to the last, in every partition."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.columns import scan
from odradek.protocol.records.compression import Compression

from benchmarks.columns import batches
from benchmarks.columns_segments import Template, fill


@pytest.mark.slow
def test_segments_of_all_partitions_have_the_offsets_that_follow_each_other(tmp_path: Path) -> None:
    directories = [tmp_path / f"grown-{partition}" for partition in range(3)]
    for directory in directories:
        directory.mkdir()
        (directory / f"{0:020d}.log").write_bytes(b"the segment of the broker")
    closed = Template(batches(100, Compression.NONE, 50_000))
    newest = Template(batches(100, Compression.LZ4, 20_000))
    end = fill(directories, 4, closed, newest)
    assert end == 4 * closed.records + newest.records
    found = scan(tmp_path / "grown")
    assert found.plan.ends == {0: end, 1: end, 2: end} and found.count() == 3 * end
    for partition in range(3):
        offsets = scan(tmp_path / "grown", columns=["offset"], partitions=[partition]).to_table().column(0)
        assert offsets.to_pylist() == list(range(end))


def test_only_the_newest_segments_are_files_of_their_own(tmp_path: Path) -> None:
    directories = [tmp_path / f"grown-{partition}" for partition in range(2)]
    for directory in directories:
        directory.mkdir()
    tiny = Template(batches(100, Compression.NONE, 1_000))
    fill(directories, 2, tiny, tiny)
    links = [file.stat().st_nlink for file in sorted(directories[1].glob("*.log"))]
    assert links == [2, 2, 1]
