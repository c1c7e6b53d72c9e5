"""A scan's dataset is read by the thread that asks, and a program that stops early ends."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from odradek.columns import ScanDataset, ValueSchema, scan
from odradek.columns.dataset import UndecodableDataset
from odradek.columns.typed_rows import UNDECODABLE

from tests.columns.harness.logs import GeneratedLog

DEADLINE_S = 60
LATE = ds.field("offset") > 100

#: The reading waits at its second batch for the end of the program, on a thread that reads ahead.
STOPS_EARLY = """
import atexit, sys, threading
from odradek.columns import ScanDataset, scan
from odradek.columns.scan import Scan

program_ends = threading.Event()
atexit.register(program_ends.set)

class Waiting(Scan):
    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            if number == 1:
                program_ends.wait()
            yield batch

found = scan(sys.argv[1], split_bytes=500)
found.__class__ = Waiting
assert len(found.splits) > 1
reader = ScanDataset(found).scanner(["offset"]).to_reader()
print(reader.read_next_batch().num_rows > 0)
"""


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = GeneratedLog(tmp_path_factory.mktemp("scanned"), 1)
    log.fill(200)
    log.close()
    return log.topic_path


READINGS: dict[str, Callable[[ScanDataset], object]] = {
    "table": lambda found: found.to_table(["offset"]),
    "rows that pass a filter": lambda found: found.to_table(["offset"], LATE),
    "count": lambda found: found.count_rows(LATE),
    "batches": lambda found: list(found.to_batches()),
    "reader": lambda found: found.scanner(["value"], LATE).to_reader().read_all(),
    "head": lambda found: found.head(10**9),
    "take": lambda found: found.take([3, 1]),
    "Polars": lambda found: polars.scan_pyarrow_dataset(found).filter(polars.col("offset") > 100).collect(),
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
def test_scan_is_read_by_the_thread_that_asks(topic: Path, reading: Callable[[ScanDataset], object]) -> None:
    """Another thread could be in Python when the interpreter ends it, which aborts the process or leaves it waiting."""
    readers: list[int] = []
    found = scan(topic, split_bytes=500)
    found.on_end = lambda _: readers.append(threading.get_ident())
    reading(ScanDataset(found))
    assert set(readers) == {threading.get_ident()}


@pytest.mark.usefixtures("processes")
def test_program_that_reads_the_first_batch_only_ends(topic: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPS_EARLY, str(topic)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize("names", [["offset"], ["value", "key", "offset"], []])
@pytest.mark.parametrize("filter", [None, LATE, LATE & ds.field("key").is_valid()])
def test_scanner_has_what_arrows_scanner_has(
    topic: Path, names: Sequence[str], filter: pa.compute.Expression | None
) -> None:
    found = scan(topic, split_bytes=500)
    dataset, arrows = ScanDataset(found), ds.InMemoryDataset(found.to_table())
    expected = arrows.scanner(columns=names, filter=filter).to_table()
    scanner = dataset.scanner(names, filter)
    assert scanner.projected_schema == expected.schema
    assert set(scanner.dataset_schema.names) >= set(names)
    assert scanner.to_table() == expected
    assert dataset.scanner(names, filter).to_reader().read_all() == expected
    assert dataset.scanner(names, filter).count_rows() == expected.num_rows
    tagged = list(dataset.scanner(names, filter).scan_batches())
    assert sum(one.record_batch.num_rows for one in tagged) == expected.num_rows
    assert all(one.fragment.count_rows() == one.record_batch.num_rows for one in tagged)
    for count in (0, 1, 17, 10**9):
        assert dataset.scanner(names, filter).head(count) == expected.slice(0, min(count, expected.num_rows))
    assert dataset.scanner(names, filter).take([5, 2]) == expected.take([5, 2])


def test_undecodable_records_are_filtered_by_arrow_alone(topic: Path) -> None:
    fields = pa.schema([("id", pa.int64())])
    found = scan(topic, values=ValueSchema("json", fields))
    dataset = UndecodableDataset(found, UNDECODABLE)
    for _ in found:
        pass
    expected = found.undecodable.filter(LATE).select(["offset"])
    assert expected.num_rows > 0
    assert type(dataset.scanner(["offset"], LATE)) is ds.Scanner
    assert dataset.to_table(columns=["offset"], filter=LATE) == expected
