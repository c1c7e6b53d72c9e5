"""Requests that wait long, on connections that have ended: nothing of them stays."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from odradek.server.endpoints import fetch as endpoint
from odradek.server.fetch import fetch_sessions
from odradek.server.network.connection import Connection

from compat_tests.recipes import eventually
from compat_tests.wire import WireClient
from tests.server.harness.data_path import DataPath
from tests.server.harness.share_groups import SETTINGS, configure
from tests.server.harness.share_member import Member

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS, GROUP = 4, "departing"
#: The longest that a request can ask for: 24 days.
FOREVER_MS = (1 << 31) - 1
FETCH_VERSION, SHARE_VERSION = 17, 2
DEADLINE_S, MEMBER_SIZE = 30, 22


@pytest.fixture
def path() -> Iterator[DataPath]:
    with odradek.Broker(config=SETTINGS | {"group.share.max.size": 1, "group.share.max.share.sessions": 1}) as broker:
        made = DataPath(broker)
        yield made
        made.close()


def connections_at(port: int) -> list[Connection]:
    """Returns the broker's side of connections that something still refers to."""
    gc.collect()
    found = [one for one in gc.get_objects() if type(one) is Connection]
    return [one for one in found if one.remote_address.endswith(f":{port}")]


def fetch(path: DataPath, topic: str) -> FetchRequest:
    partitions = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(PARTITIONS)]
    topics = [FetchTopic(topic, path.topic_id(topic), partitions)]
    return FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1, max_bytes=1000, topics=topics)


def share_fetch(path: DataPath, topic: str, member: str, wait_ms: int = FOREVER_MS) -> ShareFetchRequest:
    topics = [ShareFetchTopic(path.topic_id(topic), [ShareFetchPartition(0)])]
    return ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=0,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1000,
        max_records=1,
        batch_size=1,
        topics=topics,
    )


def depart(
    path: DataPath, request: Any, version: int, is_waiting: Callable[[], bool], *, is_held: bool = False
) -> None:
    """Sends a request, and ends the connection while it waits. Returns when nothing of it is left.

    `is_held`: the broker reads nothing meanwhile, and so cannot notice that the peer ends the connection.
    """
    with WireClient(path.broker.bootstrap_servers) as client:
        port = client._socket.getsockname()[1]
        client.send(request, version)
        eventually(is_waiting, what="the request waits", deadline_s=DEADLINE_S)
        assert len(connections_at(port)) == 1
        if is_held:
            path.broker._running().loop.call_soon_threadsafe(connections_at(port)[0].abort)
    eventually(lambda: not connections_at(port), what="nothing of the connection is left", deadline_s=DEADLINE_S)


@pytest.mark.parametrize("is_large", [False, True])
def test_fetch_of_a_departed_peer_ends(path: DataPath, is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_large:
        for module in (endpoint, fetch_sessions):
            monkeypatch.setattr(module, "LARGE_FETCH", 2)
    topic = path.topic(PARTITIONS)
    hosted = path.hosted(topic, PARTITIONS - 1)
    depart(path, fetch(path, topic), FETCH_VERSION, lambda: bool(hosted.watchers), is_held=True)
    assert not hosted.watchers


def test_share_fetch_of_a_departed_peer_ends(path: DataPath) -> None:
    topic = path.topic()
    configure(path.broker.bootstrap_servers, GROUP)
    # A share partition has a state once a member was assigned it; without one the response comes at once.
    Member(path.broker.bootstrap_servers, GROUP, topic, [(path.topic_id(topic), 0)]).close()
    hosted = path.hosted(topic)
    depart(
        path, share_fetch(path, topic, "A" * MEMBER_SIZE), SHARE_VERSION, lambda: bool(hosted.watchers), is_held=True
    )


def test_share_fetch_beyond_the_limit_of_sessions_ends_with_its_peer(path: DataPath) -> None:
    topic = path.topic()
    configure(path.broker.bootstrap_servers, GROUP)
    begun, rejected = (share_fetch(path, topic, name * MEMBER_SIZE, wait_ms=0) for name in "AB")
    with WireClient(path.broker.bootstrap_servers) as first:
        assert first.call(begun, SHARE_VERSION).error_code == 0
        assert path.client.call(rejected, SHARE_VERSION).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED

        def is_waiting() -> bool:
            return any(one.calls for one in list(path.broker.server.network.listeners[0].connections))

        depart(path, share_fetch(path, topic, "C" * MEMBER_SIZE), SHARE_VERSION, is_waiting)
