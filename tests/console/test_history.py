"""The history behind the charts: kept on disk for days, within limits, whole after a crash."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time
from pathlib import Path

import odradek
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.console.cluster.history import MOST_SERIES, STALE_S, History, Scope
from odradek.console.cluster.history_file import MOST_STORED_SERIES, HistoryFile
from odradek.console.cluster.series import MOST_MINUTES
from odradek.console.settings import MOST_DAYS

from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually
from tests.harness.examples import examples

_HOUR, _DAY = 3600, 86_400
_START = 1_800_000_000 // _DAY * _DAY
#: Writes until it is killed.
_WRITER = """
import sys, pathlib
from odradek.console.cluster.history_file import HistoryFile
file = HistoryFile(pathlib.Path(sys.argv[1]), "cluster", 7, 0)
minute = 0
while True:
    file.add([(f"lag/{n}", minute, float(minute)) for n in range(50)], minute)
    print(minute, flush=True)
    minute += 60
"""


class Clock:
    now = float(_START)

    def __call__(self) -> float:
        return self.now


def history_of(folder: Path, clock: Clock, days: int = 7, cluster: str = "cluster") -> History:
    made = History(folder, days, clock)
    made.identify(cluster)
    return made


def follow(history: History, clock: Clock, seconds: int, step_s: int = 30, name: str = "lag") -> None:
    """Adds a point each step, whose value is its time in hours, and writes as the poller does."""
    for _ in range(seconds // step_s):
        clock.now += step_s
        history.add(name, clock.now / _HOUR)
        history.write()


def test_points_of_a_day_outlive_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    first = history_of(tmp_path, clock)
    follow(first, clock, _DAY)
    before, _ = first.since("lag", _DAY)
    first.close()
    second = history_of(tmp_path, clock)
    clock.now += 60
    second.add("lag", 1.0)
    times, values = second.since("lag", _DAY)
    assert list(times) == sorted(set(times)) and times[0] < _START + 3 * 600
    assert len(times) >= (_DAY - 6 * _HOUR) // 600 + MOST_MINUTES - 15
    assert all(abs(value - time_s / _HOUR) < 0.2 for time_s, value in zip(times[:-1], values[:-1], strict=True))
    assert len(before) > 500
    # The charts of six hours have their points at once.
    assert len(second.points("lag")[0]) > MOST_MINUTES - 15


def poll(history: History, clock: Clock, groups: int, partitions: int, step_s: float = 2.0) -> None:
    """Adds what a poll does: the lag of groups, of their partitions, and after them the figures of the cluster."""
    clock.now += step_s
    for group in range(groups):
        history.add(f"lag/{group}", 1.0)
        for partition in range(partitions):
            history.add(f"lag/{group}/orders/{partition}", 1.0, Scope.PARTITION)
    history.add("lag", 1.0, Scope.CLUSTER)


def lengths(history: History, *names: str) -> list[int]:
    return [len(history.values(name)) for name in names]


def test_series_grow_with_more_partitions_than_there_are_series() -> None:
    clock = Clock()
    history = History(clock=clock)
    for _ in range(10):
        poll(history, clock, groups=30, partitions=50)
    assert lengths(history, "lag", *(f"lag/{group}" for group in range(30))) == [10] * 31
    of_partitions = lengths(history, *(f"lag/{group}/orders/{index}" for group in range(30) for index in range(50)))
    assert of_partitions.count(10) == MOST_SERIES - 31 and set(of_partitions) == {0, 10}


def test_groups_take_the_place_of_partitions_and_those_without_room_wait() -> None:
    clock = Clock()
    history = History(clock=clock)
    poll(history, clock, groups=1, partitions=MOST_SERIES)
    for _ in range(2):
        poll(history, clock, groups=MOST_SERIES + 50, partitions=0)
    grown = [name for name in range(MOST_SERIES + 50) if len(history.values(f"lag/{name}")) >= 2]
    assert len(grown) == MOST_SERIES - 1 and lengths(history, "lag") == [3]
    clock.now += STALE_S
    poll(history, clock, groups=0, partitions=0)
    history.add("rate/new", 1.0)
    assert lengths(history, "rate/new") == [1], "it takes the place of a series that has ended"


def test_minute_of_a_dropped_series_is_on_disk(tmp_path: Path) -> None:
    clock = Clock()
    history = history_of(tmp_path, clock)
    history.add("lag/0/orders/0", 7.0, Scope.PARTITION)
    poll(history, clock, groups=MOST_SERIES, partitions=0)
    assert lengths(history, "lag/0/orders/0") == [0]
    history.close()
    assert list(history_of(tmp_path, clock).since("lag/0/orders/0", _HOUR)[1]) == [7.0]


def test_days_and_series_are_bounded(tmp_path: Path) -> None:
    clock = Clock()
    file = HistoryFile(tmp_path, "cluster", 2, clock.now)
    for hour in range(24 * 5):
        at = _START + hour * _HOUR
        file.add([("kept", at, 1.0), (f"group-{hour}", at, 2.0)], at)
    end = _START + 24 * 5 * _HOUR
    times, _ = file.points("kept", 0)
    assert times[0] >= end - 3 * _DAY and len(times) >= 47
    assert not file.points("group-1", 0)[0] and file.points(f"group-{24 * 5 - 1}", 0)[0]
    many = [(f"s{number}", end + _HOUR, 1.0) for number in range(MOST_STORED_SERIES + 50)]
    file.add(many, end + 2 * _HOUR)
    assert not file.points("kept", 0)[0]
    stored = sum(bool(file.points(name, 0)[0]) for name, _, _ in many)
    assert stored == MOST_STORED_SERIES
    file.close()


def test_full_history_takes_little_room(tmp_path: Path) -> None:
    """Twenty series of MOST_DAYS, of which each takes as much as each of MOST_STORED_SERIES."""
    file = HistoryFile(tmp_path, "cluster", MOST_DAYS, _START)
    for day in range(MOST_DAYS + 2):
        at = _START + day * _DAY
        rows = [(f"lag/{n}", at + step * 600, float(step)) for n in range(20) for step in range(144)]
        file.add(rows, at + _DAY)
    file.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4 << 20


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.integers(1, 2000), st.floats(-1e9, 1e9)), min_size=1, max_size=60))
def test_mean_of_each_point_is_kept_across_restarts(steps: list[tuple[int, float]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        history = history_of(Path(folder), clock)
        given_points = []
        for index, (seconds, value) in enumerate(steps):
            clock.now += seconds
            history.add("lag", value)
            history.write()
            given_points.append((clock.now, value))
            if index % 7 == 6:
                history.close()
                history = history_of(Path(folder), clock)
        times, values = history.since("lag", MOST_DAYS * _DAY)
        assert list(times) == sorted(times)
        low, high = min(value for _, value in given_points), max(value for _, value in given_points)
        assert all(low - 1e-3 <= value <= high + 1e-3 for value in values)
        # Each point is in a mean that begins at most ten minutes before it.
        for at, _ in given_points:
            assert any(at - 600 <= time_s <= at for time_s in times)
        history.close()


def test_damaged_file_is_put_aside_and_a_new_one_begins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    first = history_of(tmp_path, clock)
    follow(first, clock, _HOUR)
    first.close()
    (path,) = tmp_path.glob("*.history")
    path.write_bytes(b"no database" * 1000)
    second = history_of(tmp_path, clock)
    follow(second, clock, _HOUR)
    assert len(second.since("lag", _HOUR)[0]) > 50
    second.close()
    assert "is damaged" in caplog.text and path.with_suffix(".damaged").exists()


def test_folder_that_cannot_be_written_leaves_the_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    clock = Clock()
    history = history_of(tmp_path / "file" / "below", clock)
    follow(history, clock, _HOUR)
    assert len(history.points("lag")[0]) == 120 and "kept in memory alone" in caplog.text
    history.close()


def test_full_disk_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    history = history_of(tmp_path, clock)
    assert history._file is not None
    history._file._connection.execute("PRAGMA max_page_count = 1")
    with caplog.at_level(logging.WARNING):
        follow(history, clock, _DAY, 60)
    assert caplog.text.count("kept in memory alone") == 1 and len(history.points("lag")[0]) > 400


def test_files_of_clusters_that_are_gone_are_deleted(tmp_path: Path) -> None:
    HistoryFile(tmp_path, "gone", 7, _START).close()
    HistoryFile(tmp_path, "own", 7, time.time() + 8 * _DAY).close()
    assert [path.stem for path in tmp_path.glob("*.history")] == ["own"]


@pytest.mark.usefixtures("processes")
def test_killed_writer_leaves_each_whole_minute(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        written = 0
        while written < 60 * 100:
            written = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
    file = HistoryFile(tmp_path, "cluster", 7, 0)
    counts = {len(file.points(f"lag/{n}", 0)[0]) for n in range(50)}
    assert len(counts) == 1 and counts.pop() >= written // 60
    file.close()


@pytest.mark.usefixtures("processes")
def test_console_shows_the_history_of_the_one_before(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ("--history", str(tmp_path / "history"), "--history-days", "3")

    def points(broker: odradek.Broker) -> list[float]:
        """Those of throughput over a day, at the end of a console."""
        console = ConsoleProcess(broker.bootstrap_servers, tmp_path, *words)
        visitor = Visitor(console.address)
        try:
            eventually(lambda: 'data-days="3"' in visitor.get("/"), what="the charts are there")
            found = json.loads(visitor.get("/history?series=records_per_s&days=1"))
            assert len(found["times"]) == len(found["values"]) > 0
            return [float(one) for one in found["times"]]
        finally:
            console.stop()

    with odradek.Broker(data_dir=data) as broker:
        first = points(broker)
    with odradek.Broker(data_dir=data) as broker:
        second = points(broker)
    assert second[0] <= first[0] < second[-1]
    assert len(list((tmp_path / "history").glob("*.history"))) == 1


@pytest.mark.usefixtures("processes")
def test_history_without_days_writes_no_file(tmp_path: Path) -> None:
    with odradek.Broker() as broker:
        console = ConsoleProcess(broker.bootstrap_servers, tmp_path, "--history-days", "0")
        try:
            page = Visitor(console.address).await_text("/", "Throughput")
            assert "data-days" not in page
        finally:
            console.stop()
    assert not (tmp_path / "history").exists()
