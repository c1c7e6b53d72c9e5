"""The benchmark of tails: its counts of records, its figures, and its paced clients against a broker."""

from __future__ import annotations

import json
import subprocess
import sys

import odradek
import pytest
from odradek.protocol.records.record import Record, encode_batch

from benchmarks.tails.__main__ import ROOT, beside, shown
from benchmarks.tails.neighbours import NEIGHBOURS, create, whole_records
from benchmarks.tails.paced import TOPIC
from compat_tests.wire import WireClient


def test_records_of_whole_batches_are_counted_and_a_cut_batch_is_not() -> None:
    batches = encode_batch([Record(0, 1, None, b"a"), Record(1, 1, None, b"b")]) + encode_batch(
        [Record(0, 1, None, b"c")]
    )
    assert [whole_records(batches[:size]) for size in (0, 60, len(batches) - 1, len(batches))] == [0, 0, 2, 3]


def test_row_shows_median_tail_and_largest_latency_in_milliseconds() -> None:
    assert shown([1000 * number for number in range(1000)]) == "500.00, 990.00, 999.00, 999.00"
    assert shown([7]) == "0.01, 0.01, 0.01, 0.01"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", sorted(set(NEIGHBOURS) - {"catch-up", "handshakes"}))
def test_latencies_of_all_records_are_measured_beside(name: str) -> None:
    with odradek.Broker() as broker:
        with WireClient(broker.bootstrap_servers) as client:
            create(client, TOPIC)
        with beside(name, broker.bootstrap_servers):
            words = [sys.executable, "-m", "benchmarks.tails.paced", broker.bootstrap_servers, "100", "1", "0.5"]
            done = subprocess.run(words, check=True, capture_output=True, cwd=ROOT)
    found = json.loads(done.stdout)
    assert len(found["produced"]) == len(found["consumed"]) == 100
    assert all(sent > 0 for sent in found["produced"]) and found["consumed"] == sorted(found["consumed"])
