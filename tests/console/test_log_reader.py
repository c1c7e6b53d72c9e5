"""Reading of a log's windows while leaders move: all partitions that moved cost one pause, and one look-up of leaders."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.topic_batches import create_topics
from odradek.admin.topic_changes import NewTopic
from odradek.client.cluster import Cluster
from odradek.client.user_errors import UserError
from odradek.console.cluster import log_reader
from odradek.console.cluster.log_reader import LogReader, Range
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest

pytestmark = pytest.mark.usefixtures("sockets")

_PARTITIONS = 20


class Pauses:
    """In place of the `time.sleep` of a reader."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, seconds: float) -> None:
        self.count += 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Requests by their kind. The first `moved` responses to fetches have the error of a moved leader throughout."""
    counts: Counter[str] = Counter(moved=1)
    ask = Cluster.ask

    def moved(self: Cluster, request: Any, *arguments: Any, **named: Any) -> Any:
        counts[type(request).__name__] += 1
        response = ask(self, request, *arguments, **named)
        if isinstance(request, FetchRequest) and counts["FetchRequest"] <= counts["moved"]:
            for topic in response.responses:
                for one in topic.partitions:
                    one.error_code, one.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, None
        return response

    monkeypatch.setattr(Cluster, "ask", moved)
    return counts


def read_all(timeout_s: float) -> int:
    """The number of records of a topic with one in each partition."""
    with odradek.Broker() as broker:
        connection = Connection({"bootstrap.servers": broker.bootstrap_servers})
        with connection.admin() as admin:
            create_topics(admin, ["wide"], NewTopic(_PARTITIONS), if_not_exists=False, dry_run=False)
            for index in range(_PARTITIONS):
                broker.topic("wide").send(b"x", partition=index)
            reader = LogReader(admin, "wide", timeout_s)
            windows = {("wide", index): Range(0, 1, 0, 1) for index in range(_PARTITIONS)}
            return sum(len(batch.records) for batch in reader.batches(windows))


def test_partitions_that_moved_share_a_pause(monkeypatch: pytest.MonkeyPatch, asked: Counter[str]) -> None:
    pauses = Pauses()
    # Not the module's own function: other parts sleep too, such as requests for a topic that is new.
    monkeypatch.setattr(log_reader, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pauses))
    described: list[str] = []
    described_topics = log_reader.described_topics
    monkeypatch.setattr(
        log_reader,
        "described_topics",
        lambda admin, names: [described.append(names), *described_topics(admin, names)][1:],
    )
    assert read_all(30.0) == _PARTITIONS
    assert pauses.count == 1 and len(described) == 2, (pauses.count, described)


def test_partition_that_stays_without_a_leader_is_an_error(asked: Counter[str]) -> None:
    asked["moved"] = 1_000_000
    with pytest.raises(UserError, match="cannot be read: NOT_LEADER_OR_FOLLOWER"):
        read_all(0.3)
