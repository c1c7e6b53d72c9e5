"""A command continues while the brokers of a cluster do not agree yet."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import odradek
import pytest
from odradek.client.cluster import Cluster

from compat_tests.cli.commands import odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

#: The id of a broker that no metadata contains.
UNKNOWN = 99


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def test_change_that_was_not_sent_is_repeated(broker: odradek.Broker) -> None:
    with broker.faults.fail("CreateTopics", error="NOT_CONTROLLER", times=1) as fault:
        done = odradek_command("topic", "create", "orders", "-p", "2", "-b", broker.bootstrap_servers)
    assert fault.count == 1
    assert done.status == 0, done.err
    assert len(broker.topic("orders").end_offsets) == 2


def test_change_whose_controller_is_unknown_is_repeated(broker: odradek.Broker) -> None:
    controllers = iter((UNKNOWN,))
    known = Cluster.controller
    with patch.object(Cluster, "controller", lambda self: next(controllers, None) or known(self)):
        done = odradek_command("topic", "create", "bills", "-p", "2", "-b", broker.bootstrap_servers)
    assert done.status == 0, done.err
    assert len(broker.topic("bills").end_offsets) == 2


@pytest.mark.parametrize("error", ["OFFSET_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"])
def test_query_is_repeated_after_a_leader_was_elected(broker: odradek.Broker, error: str) -> None:
    broker.reset()
    broker.topic("sales").send(b"1")
    with broker.faults.fail("ListOffsets", error=error, times=1) as fault:
        done = odradek_command("topic", "describe", "sales", "--output", "json", "-b", broker.bootstrap_servers)
    assert fault.count == 1
    assert done.status == 0, done.err
    assert done.json[0]["partitions"][0]["end_offset"] == 1
