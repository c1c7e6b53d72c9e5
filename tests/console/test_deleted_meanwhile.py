"""A search goes on behind records that are deleted while it runs: the Fetch that fails then has no log start offset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.admin.session import Admin
from odradek.admin.topic_changes import delete_records
from odradek.console.cluster import record_reader
from odradek.console.cluster.log_reader import LogReader, Range
from odradek.console.cluster.masks import Masks
from odradek.console.cluster.query import NEWEST, OLDEST, Query
from odradek.console.cluster.record_reader import RecordReader
from odradek.console.cluster.records import RecordMaker

from compat_tests.recipes import eventually
from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("processes")

_NAMES = itertools.count()
#: Records of each partition, and the first one that stays.
_COUNT, _BEFORE = 300, 201
_BROKER = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "folder",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.retention.ms": "-1",
}
#: Segments of a few records: each response has those of one.
_SEGMENTS = {"internal.segment.bytes": "5000", "file.delete.delay.ms": "100"}
_COMPACTED = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.01"}
_TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
_KINDS = {"plain": {}, "compacted": _COMPACTED, "tiered": _TIERED}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deleted")


@pytest.fixture(scope="module")
def broker(directory: Path) -> Iterator[odradek.Broker]:
    store = {"rsm.config.dir": str(directory / "store")}
    with odradek.Broker(data_dir=directory / "data", config=_BROKER | store) as running:
        yield running


@pytest.fixture
def admin(broker: odradek.Broker) -> Iterator[Admin]:
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as opened:
        yield opened


def offsets_in(batches: Iterator[Any]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in batches:
        found.setdefault(batch.place[1], []).extend(record.offset() for record in batch.records)
    return found


def windows_of(topic: str, bounds: dict[int, tuple[int, int]]) -> dict[tuple[str, int], Range]:
    return {(topic, index): Range(low, high, low, high) for index, (low, high) in bounds.items()}


def filled(broker: odradek.Broker, directory: Path, admin: Admin, kind: str) -> tuple[str, list[int]]:
    """A topic of three partitions with the same records, and their offsets: what compaction has left of them."""
    topic = f"{kind}-{next(_NAMES)}"
    made = broker.topic(topic)
    made.create(3, config=_SEGMENTS | _KINDS[kind])
    for number, index in itertools.product(range(_COUNT), range(3)):
        made.send(b"%d" % number + b"x" * 100, key=b"%d" % (number % 250), partition=index)

    def read() -> list[list[int]]:
        bounds = dict.fromkeys(range(3), (0, _COUNT))
        found = offsets_in(LogReader(admin, topic, 30.0).batches(windows_of(topic, bounds)))
        return [found[index] for index in range(3)]

    if kind == "compacted":
        eventually(
            lambda: all(len(one) < _COUNT and one == read()[0] for one in read()), what="compaction", deadline_s=60
        )
    if kind == "tiered":
        logs = [directory / "data" / f"{topic}-{index}" for index in range(3)]
        eventually(
            lambda: all(len(list(one.glob("*.log"))) == 1 for one in logs), what="one local segment", deadline_s=60
        )
    return topic, read()[0]


@pytest.mark.parametrize("is_between", [False, True])
@pytest.mark.parametrize("kind", _KINDS)
def test_windows_are_read_behind_records_that_are_deleted_meanwhile(
    broker: odradek.Broker, directory: Path, admin: Admin, kind: str, is_between: bool
) -> None:
    """Deletes a part of the window of the first partition, all of that of the second, and nothing of the third."""
    topic, kept = filled(broker, directory, admin, kind)
    windows = windows_of(topic, {0: (0, _COUNT), 1: (0, _BEFORE - 1), 2: (0, _COUNT)})
    batches = LogReader(admin, topic, 30.0).batches(windows)
    first = [next(batches)] if is_between else []
    delete_records(admin, {(topic, 0): _BEFORE, (topic, 1): _BEFORE})
    found = offsets_in(itertools.chain(first, batches))
    assert found[2] == kept
    assert [offset for offset in found[0] if offset >= _BEFORE] == [offset for offset in kept if offset >= _BEFORE]
    read_before = [offset for index in (0, 1) for offset in found.get(index, ()) if offset < _BEFORE]
    if is_between:
        assert read_before and _BEFORE - 1 not in read_before, "nothing was deleted between two responses"
    else:
        assert read_before == []


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    partitions=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 25), st.integers(0, 25)),
        min_size=1,
        max_size=4,
    )
)
def test_each_window_has_the_records_that_are_left(
    broker: odradek.Broker, admin: Admin, partitions: list[tuple[int, int, int, int]]
) -> None:
    """Also where the window lies behind the end of the log: it was truncated."""
    topic = f"drawn-{next(_NAMES)}"
    made = broker.topic(topic)
    made.create(len(partitions))
    bounds, expected = {}, {}
    for index, (one, other, count, before) in enumerate(partitions):
        if count:
            made.send(*[b"x"] * count, partition=index)
        before = min(before, count)
        delete_records(admin, {(topic, index): before})
        bounds[index] = low, high = min(one, other), max(one, other)
        if left := list(range(max(low, before), min(high, count))):
            expected[index] = left
    assert offsets_in(LogReader(admin, topic, 30.0).batches(windows_of(topic, bounds))) == expected


@pytest.mark.parametrize("order", [NEWEST, OLDEST])
@pytest.mark.parametrize("value", ["", "7"])
def test_page_shows_what_is_left_of_its_range(
    broker: odradek.Broker, directory: Path, admin: Admin, monkeypatch: pytest.MonkeyPatch, order: str, value: str
) -> None:
    topic, kept = filled(broker, directory, admin, "plain")
    lanes_of = record_reader.lanes_of

    def deleted_after_the_plan(*arguments: Any) -> Any:
        lanes = lanes_of(*arguments)
        delete_records(admin, {(topic, index): _BEFORE for index in range(3)})
        return lanes

    monkeypatch.setattr(record_reader, "lanes_of", deleted_after_the_plan)
    connection = Connection({"bootstrap.servers": broker.bootstrap_servers})
    reader = RecordReader(connection, RecordMaker(connection, Masks(()), None))
    result = reader.read(Query(topic, limit=500, order=order, value=value), seconds=30.0)
    reader.close()
    left = [offset for offset in kept if offset >= _BEFORE and value in str(offset)]
    for index in range(3):
        shown = [record.offset for record in result.records if record.partition == index]
        assert shown == (left if order == OLDEST else left[::-1])
    assert not result.edges and result.left == 0
