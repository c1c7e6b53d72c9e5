"""The benchmark of tails: its counts of records, its figures, and its paced clients against a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import odradek
import pytest
from odradek.protocol.records.record import Record, encode_batch

from benchmarks.tails.__main__ import ROOT, beside, shown, waits_row
from benchmarks.tails.neighbours import NEIGHBOURS, create, whole_records
from benchmarks.tails.paced import TOPIC, CoreWaits, slowest
from compat_tests.wire import WireClient


def test_records_of_whole_batches_are_counted_and_a_cut_batch_is_not() -> None:
    batches = encode_batch([Record(0, 1, None, b"a"), Record(1, 1, None, b"b")]) + encode_batch(
        [Record(0, 1, None, b"c")]
    )
    assert [whole_records(batches[:size]) for size in (0, 60, len(batches) - 1, len(batches))] == [0, 0, 2, 3]


def test_row_shows_median_tail_and_largest_latency_in_milliseconds() -> None:
    assert shown([1000 * number for number in range(1000)]) == "500.00, 990.00, 999.00, 999.00"
    assert shown([7]) == "0.01, 0.01, 0.01, 0.01"


def test_waits_for_core_of_slowest_records_are_those_between_samples_around_them() -> None:
    waits = CoreWaits(os.getpid())
    waits.samples = [(0, 0, 0, 0), (1000, 10_000, 1000, 2000), (2000, 10_000, 9000, 2000), (9000, 50_000, 9000, 9000)]
    assert waits.during(1500, 1900) == (0, 8000)
    assert waits.during(1000, 9000) == (40_000, 8000)
    assert waits.during(500, 9999) == (50_000, 9000)
    spans = [(0, 100)] * 998 + [(0, 2_000_000), (1500, 1900)]
    assert slowest(spans, waits) == (2000, 50, 9)


@pytest.mark.usefixtures("processes")
def test_threads_that_share_core_wait_for_it() -> None:
    allowed = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            for process in (0, other.pid):
                os.sched_setaffinity(process, {min(allowed)})
            waits = CoreWaits(other.pid)
            waits.INTERVAL_NS = 0
            began_ns, until = time.monotonic_ns(), time.thread_time() + 0.2
            while time.thread_time() < until:
                pass
            waits.sample()
        finally:
            os.sched_setaffinity(0, allowed)
            other.kill()
    broker_ns, client_ns = waits.during(began_ns, time.monotonic_ns())
    assert broker_ns > 50_000_000 and client_ns > 50_000_000


def test_row_of_waits_has_milliseconds() -> None:
    assert waits_row(8000, 1500, 250).endswith("| 8.00, of it 1.50 by the broker, 0.25 by the client")


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
