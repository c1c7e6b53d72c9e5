"""A command continues while the brokers of a cluster do not agree yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from kafka.errors import UnknownBrokerIdError
from odradek.cli.client.connection import Connection

from compat_tests.cli.commands import odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

#: The id of a broker that no metadata contains.
UNKNOWN = 99


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def test_change_that_was_not_sent_is_repeated(broker: odradek.Broker) -> None:
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
        calls = []

        def fails_once(topics: Any) -> Any:
            calls.append(topics)
            if len(calls) == 1:
                raise UnknownBrokerIdError(UNKNOWN)
            del admin.impatient.create_topics
            return admin.impatient.create_topics(topics)

        admin.impatient.create_topics = fails_once
        admin.create_topics({"orders": {"num_partitions": 2, "replication_factor": 1}})
    assert len(calls) == 2
    assert len(broker.topic("orders").end_offsets) == 2


@pytest.mark.parametrize("error", ["OFFSET_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"])
def test_query_is_repeated_after_a_leader_was_elected(broker: odradek.Broker, error: str) -> None:
    broker.reset()
    broker.topic("sales").send(b"1")
    with broker.faults.fail("ListOffsets", error=error, times=1) as fault:
        done = odradek_command("topic", "describe", "sales", "--output", "json", "-b", broker.bootstrap_servers)
    assert fault.count == 1
    assert done.status == 0, done.err
    assert done.json[0]["partitions"][0]["end_offset"] == 1
