"""Workloads of the OpenMessaging Benchmark: their files, the figures of their turns, the page, and the worker itself."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path

import odradek
import pytest
from hdrh.histogram import HdrHistogram

from benchmarks.openmessaging import page
from benchmarks.openmessaging.__main__ import chosen
from benchmarks.openmessaging.driver import Driver
from benchmarks.openmessaging.figures import CPU, DRAINED, END_TO_END, HELD, PUBLISH, RECEIVED, figures, results
from benchmarks.openmessaging.rows import HERE, ROWS, Row
from benchmarks.openmessaging.worker import Outcome, TurnFailed, Worker, turn_of
from benchmarks.openmessaging.workload import Workload, WorkloadError

WORKLOADS = sorted((HERE / "workloads").glob("*.yaml"))
SIZES = {"100b": 100, "1kb": 1024, "64kb": 65536}
SMALL = """\
name: small
topics: 2
partitionsPerTopic: 2
messageSize: 100
subscriptionsPerTopic: 1
consumerPerSubscription: 2
producersPerTopic: 1
producerRate: 20000
"""
ONE_REPLICA = Driver("one replica", 1, {}, {"acks": "all", "linger.ms": "1"}, {"auto.offset.reset": "earliest"})


def workload_file(folder: Path, text: str) -> Path:
    file = folder / "small.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("file", WORKLOADS, ids=lambda file: file.stem)
def test_workload_has_parameters_of_its_name(file: Path) -> None:
    workload = Workload.read(file)
    name = workload.name
    if topics := re.search(r"(\d+)-topics?-", name):
        assert workload.topics == int(topics[1])
    partitions = re.search(r"(\d+)-partitions?", name)
    assert workload.partitions_per_topic == (int(partitions[1]) if partitions else 1)
    assert workload.message_size == SIZES[next(size for size in SIZES if f"-{size}" in name)]
    producers, consumers = (re.search(rf"-(\d+){kind}-", name) for kind in "pc")
    assert workload.producers_per_topic == (int(producers[1]) if producers else 1)
    assert workload.consumer_per_subscription == (int(consumers[1]) if consumers else 1)
    assert workload.is_rated is not name.startswith("max-rate")
    if rate := re.search(r"-(\d+)k(-backlog)?$", name):
        assert workload.producer_rate == 1000 * int(rate[1])
    assert workload.has_backlog is name.endswith("-backlog")


def test_drivers_ask_for_three_replicas_and_all_acknowledgements() -> None:
    drivers = {file.stem: Driver.read(file) for file in (HERE / "drivers").glob("*.yaml")}
    assert set(drivers) == {"kafka-latency", "kafka-throughput", "kafka-sync", "kafka-exactly-once"}
    for driver in drivers.values():
        assert driver.replication_factor == 3 and driver.producer["acks"] == "all"
        assert driver.topic["min.insync.replicas"] == "2"
        assert not any("bootstrap.servers" in settings for settings in (driver.producer, driver.consumer))
    assert drivers["kafka-throughput"].consumer["request.timeout.ms"] == "1200000"
    assert drivers["kafka-sync"].topic["flush.messages"] == "1"
    assert drivers["kafka-exactly-once"].producer["max.in.flight.requests.per.connection"] == "1"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("topics: 2", "topics: two"), "'two' is not of type int"),
        (("topics: 2", "topics: true"), "True is not of type int"),
        (("topics: 2", "topics: 0"), "must be 1 or more"),
        (("topics: 2\n", ""), "topics"),
        (("messageSize: 100", "messageSize: 7"), "messageSize must be 8 or more"),
        (("name: small", "keyDistributor: SOME"), "keyDistributor must be one of NO_KEY"),
        (("name: small", "rate: 1"), "unknown fields rate"),
        (("producerRate: 20000", "producerRate: 0\nconsumerBacklogSizeGB: 1"), "a backlog needs a producerRate"),
        ((SMALL, "- a list"), "fields are expected"),
        (
            (
                SMALL,
                "a: [",
            ),
            "small.yaml",
        ),
    ],
)
def test_workload_that_cannot_run_is_an_error(changed: tuple[str, str], message: str, tmp_path: Path) -> None:
    assert changed[0] in SMALL
    with pytest.raises(WorkloadError, match=re.escape(message)):
        Workload.read(workload_file(tmp_path, SMALL.replace(*changed)))


def test_unknown_workload_names_those_of_the_folder(tmp_path: Path) -> None:
    workload_file(tmp_path, SMALL)
    with pytest.raises(WorkloadError, match="the folder has: small"):
        Workload.read(tmp_path / "large.yaml")


def test_driver_with_a_line_that_is_no_setting_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "driver.yaml"
    file.write_text("replicationFactor: 3\nproducerConfig: |\n  # all\n  acks=all\n  linger.ms 1\n")
    with pytest.raises(WorkloadError, match=re.escape("'linger.ms 1' is not key=value")):
        Driver.read(file)


def test_rates_and_backlogs_are_divided_and_the_highest_rate_is_not() -> None:
    rated, highest, sustained = (
        Workload.read(HERE / "workloads" / f"{name}.yaml").divided(50, 1024)
        for name in (
            "1-topic-100-partitions-1kb-4p-4c-200k-backlog",
            "max-rate-1-topic-1-partition-1p-1c-100b",
            "max-rate-1-topic-16-partitions-1kb",
        )
    )
    assert (rated.producer_rate, rated.backlog_bytes) == (4000, 512 * 1024**2)
    turns = [turn_of(workload, ONE_REPLICA, "b:1", 1, 2) for workload in (rated, highest, sustained)]
    assert [turn["producerRate"] for turn in turns] == [4000, "Infinity", 0]
    assert [turn["payloads"] for turn in turns] == [1000, 1000, 1]


def test_rows_are_chosen_by_their_names(tmp_path: Path) -> None:
    options = Namespace(only="kafka-sync", upstream=None, row=None, slower=2.0)
    assert [row.name for row in chosen(options)] == ["1-topic-1-partition-1kb, kafka-sync, 250/s (1/200)"]
    assert len(chosen(Namespace(only="", upstream=None, row=None, slower=1.0))) == len(ROWS)
    with pytest.raises(WorkloadError, match="the rows: 1-topic"):
        chosen(Namespace(only="no such row", upstream=None, row=None, slower=1.0))
    for folder in ("workloads", "driver-kafka"):
        (tmp_path / folder).mkdir()
    workload_file(tmp_path / "workloads", SMALL)
    (tmp_path / "driver-kafka" / "mine.yaml").write_text("replicationFactor: 3\n")
    (mine,) = chosen(Namespace(only="", upstream=tmp_path, row=[("small", "mine", "10")], slower=1.0))
    assert mine.name == "small, mine, 2,000/s (1/10)"


def histogram(values_us: range) -> HdrHistogram:
    counted = HdrHistogram(1, 300_000_000, 3)
    for value in values_us:
        counted.record_value(value)
    return counted


def outcome(values_us: range, received: int = 2000, **changed: object) -> Outcome:
    return Outcome(1.0, 2000, received, 0.5, histogram(values_us), histogram(values_us), **changed)


def row(tmp_path: Path, text: str = SMALL) -> Row:
    return Row(Workload.read(workload_file(tmp_path, text)).divided(10, 1), ONE_REPLICA, 10)


def test_latencies_are_those_of_the_records_of_all_turns(tmp_path: Path) -> None:
    # Turns of 10,000 records from 1 us to 10 ms, and 10 ms later: half of all are below 10 ms.
    found = figures(row(tmp_path), [outcome(range(1, 10_001)), outcome(range(10_001, 20_001), received=1000)])
    for kinds in (PUBLISH, END_TO_END):
        for share, kind in kinds.items():
            assert found[kind] == pytest.approx(20 * share / 100, rel=0.002)
    assert found[HELD] == 0.75
    assert found[CPU] == pytest.approx((250 + 500) / 2)


def test_workloads_without_due_times_have_no_latencies(tmp_path: Path) -> None:
    backlog = row(tmp_path, SMALL + "consumerBacklogSizeGB: 1\n")
    assert set(figures(backlog, [outcome(range(1, 9))])) == {DRAINED, CPU, *PUBLISH.values()}
    highest = row(tmp_path, SMALL.replace("20000", "10000000"))
    found = figures(highest, [outcome(range(1, 9))])
    assert found[RECEIVED] == 0.2 and not set(found) & {*PUBLISH.values(), *END_TO_END.values()}


def test_slowest_thousandth_must_begin_at_half_of_the_latency(tmp_path: Path) -> None:
    compared = results(row(tmp_path), [outcome(range(1, 10_001))], [outcome(range(1, 5_500))])
    missed = {result.kind.name for result in compared if not result.holds}
    assert missed == {"publish p99.9", "end to end p99.9", CPU.name}
    assert {result.rounds for result in compared} == {1}


def test_page_gets_measured_rows_and_keeps_others_and_the_text(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"above\n{page.BEGIN}old table\n{page.END}below\n")
    kept = results(row(tmp_path, SMALL.replace("2000", "4000")), [outcome(range(1, 9))], [outcome(range(1, 9))])
    page.write(kept, file)
    first = file.read_text()
    assert first.startswith(f"above\n{page.BEGIN}") and first.endswith(f"{page.END}below\n") and "old" not in first
    page.write(results(row(tmp_path), [outcome(range(1, 9))], [outcome(range(1, 9))]), file)
    assert file.read_text().count("| received, share of the rate |") == 2
    page.write(kept, file)
    assert file.read_text().count("| received, share of the rate |") == 2


def test_page_without_a_place_for_the_table_stays(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("text\n")
    with pytest.raises(ValueError, match="no place for the table"):
        page.write(results(row(tmp_path), [outcome(range(1, 9))], [outcome(range(1, 9))]), file)
    assert file.read_text() == "text\n"


@pytest.mark.slow
@pytest.mark.usefixtures("java_tools")
def test_worker_measures_each_record_that_was_due_then_drains_a_backlog_and_names_a_failure(tmp_path: Path) -> None:
    rated = Workload.read(workload_file(tmp_path, SMALL)).divided(50, 1)
    backlog = Workload.read(workload_file(tmp_path, SMALL + "consumerBacklogSizeGB: 1\n")).divided(50, 1024)
    with odradek.Broker() as broker, Worker() as worker:
        found = worker.run(turn_of(rated, ONE_REPLICA, broker.bootstrap_servers, 0, 1), lambda: 0.0)
        due = rated.producer_rate * found.seconds
        # The first records were due before the sender noticed that they are measured.
        assert 0.5 * due < found.publish.get_total_count() <= due + 2
        assert found.end_to_end.get_total_count() == found.publish.get_total_count()
        assert 0 < found.publish.get_value_at_percentile(50) <= found.end_to_end.get_max_value()
        drained = worker.run(turn_of(backlog, ONE_REPLICA, broker.bootstrap_servers, 0, 1), lambda: 0.0)
        assert drained.backlog_bytes >= backlog.backlog_bytes
        assert drained.received * backlog.message_size >= drained.backlog_bytes - 1000 * backlog.message_size
        three = Driver("three replicas", 3, {}, {}, {})
        with pytest.raises(TurnFailed, match="InvalidReplicationFactor"):
            worker.run(turn_of(rated, three, broker.bootstrap_servers, 0, 1), lambda: 0.0)
