"""A user's store raises what its library raises: that is a failure of the store, not a bug of the broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

from . import stores, tiered

COUNT = 3000


@pytest.fixture
def properties(folder: Path) -> dict[str, str]:
    return tiered.properties(folder) | stores.RAISING | {"remote.log.manager.task.retry.backoff.ms": "50"}


def logged(broker: OdradekProcess) -> int:
    return len(broker.log_file.read_text())


def await_failures(broker: OdradekProcess, method: str, since: int, call: Callable[[], object] = lambda: None) -> None:
    """Waits until a line of the log names the method and its exception. `since`: characters before the method was to fail,
    since a failure that comes again has no line of its own for a time. Which exception it is depends on the number of
    calls: several segments are deleted side by side, and the line has the failure of the first.
    """

    failure = re.compile(rf"RaisingStore\.{method}: \w+Error: ")

    def is_logged() -> bool:
        call()
        lines = broker.log_file.read_text()[since:].splitlines()
        return any(failure.search(line) for line in lines)

    eventually(is_logged, what=f"the failure of {method} is logged", deadline_s=60)


def fetch(broker: OdradekProcess) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=tiered.TOPIC, partitions=[wanted])
    with WireClient(broker.bootstrap) as client:
        client.call(FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[topic]), 12)


def test_exceptions_of_a_users_store_are_logged_as_its_failures(broker: OdradekProcess, folder: Path) -> None:
    """The fixture looks for tracebacks at the end."""
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    tiered.await_local_start(broker.data_dir, COUNT // 2)
    before = logged(broker)
    (folder / stores.FAIL).touch()
    await_failures(broker, "fetch_index", before, lambda: fetch(broker))
    before = logged(broker)
    tiered.produce(broker.bootstrap, tiered.values_of(COUNT, COUNT))
    await_failures(broker, "copy_log_segment_data", before)
    (folder / stores.FAIL).unlink()
    tiered.await_local_start(broker.data_dir, COUNT + COUNT // 2)
    assert tiered.consume(broker.bootstrap, 2 * COUNT) == tiered.numbered(tiered.values_of(2 * COUNT))
    before = logged(broker)
    (folder / stores.FAIL).touch()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (done,) = admin.delete_topics([tiered.TOPIC]).values()
    done.result(30)
    await_failures(broker, "delete_log_segment_data", before)
    (folder / stores.FAIL).unlink()
    eventually(lambda: not tiered.remote_segments(folder), what="the segments are deleted", deadline_s=60)
