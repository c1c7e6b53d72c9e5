"""Share groups on the wire: records are acquired, acknowledged or delivered again; acknowledged ones are not (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.share_group_describe import ShareGroupDescribeRequest

from compat_tests.recipes import eventually, make_topic
from compat_tests.wire import WireClient
from tests.server.harness.share_groups import SETTINGS, configure, described, lag, member, produce
from tests.server.harness.share_member import ACCEPT, REJECT, RELEASE, RENEW, STRICT

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with odradek.Broker(config=SETTINGS) as running:
        yield running.bootstrap_servers


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return request.node.name[:80]


def test_members_share_a_partition_and_what_is_done_is_not_delivered_again(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name)
    produce(bootstrap, name, 20)
    with member(bootstrap, name, topic_id) as a, member(bootstrap, name, topic_id) as b:
        assert a.take(max_records=10) == [(0, 9, 1)]
        assert b.take(max_records=10) == [(10, 19, 1)]
        assert a.take(wait_ms=0) == []
        assert a.acknowledge((0, 3, ACCEPT), (4, 5, RELEASE), (6, 6, REJECT)).error_code == 0
        assert b.take() == [(4, 5, 2)]
        rejected = b.acknowledge((7, 9, ACCEPT))
        assert rejected.error_code == ErrorCode.INVALID_RECORD_STATE
        assert a.acknowledge((7, 9, ACCEPT)).error_code == 0
        assert b.acknowledge((4, 5, ACCEPT), (10, 19, ACCEPT)).error_code == 0
        assert lag(bootstrap, name) == 0


def test_a_strict_limit_cuts_batches(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name)
    produce(bootstrap, name, 10)
    with member(bootstrap, name, topic_id) as one:
        assert one.take(max_records=3, mode=STRICT) == [(0, 2, 1)]
        assert one.take(max_records=3, mode=STRICT) == [(3, 4, 1), (5, 5, 1)]
        assert one.take(max_records=3) == [(6, 9, 1)]


def test_records_of_departed_member_go_to_others(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name, share_delivery_count_limit="2")
    produce(bootstrap, name, 5)
    with member(bootstrap, name, topic_id) as a, member(bootstrap, name, topic_id) as b:
        assert a.take() == [(0, 4, 1)]
        a.client.close()
        assert eventually(b.take, what="the records of a lost connection come back") == [(0, 4, 2)]
        assert lag(bootstrap, name) == 5
        assert b.fetch([(0, 0, ACCEPT)], epoch=-1).error_code == 0
        # The records have reached the delivery limit.
        eventually(lambda: lag(bootstrap, name) == 0, what="the records of an ended session are given up")
        with member(bootstrap, name, topic_id) as c:
            assert c.take(wait_ms=0) == []


def test_records_that_fail_often_are_at_last_delivered_alone(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name, share_delivery_count_limit="3")
    produce(bootstrap, name, 4, batch=4)
    with member(bootstrap, name, topic_id) as one:
        for count in (1, 2):
            assert one.take() == [(0, 3, count)]
            assert one.acknowledge((0, 3, RELEASE)).error_code == 0
        assert [one.take() for _ in range(4)] == [[(offset, offset, 3)] for offset in range(4)]


def test_locks_end_and_may_be_renewed(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name, share_record_lock_duration_ms="1000")
    produce(bootstrap, name, 2, batch=1)
    with member(bootstrap, name, topic_id) as a, member(bootstrap, name, topic_id) as b:
        assert a.take(max_records=2) == [(0, 1, 1)]
        response = a.acknowledge((1, 1, RENEW), renews=True)
        assert response.error_code == 0
        assert a.acknowledge((1, 1, RENEW)).error_code == ErrorCode.INVALID_REQUEST
        # Records that were acquired together are delivered again together, as far as they are available by then.
        first, _, count = eventually(lambda: b.take(max_records=1), what="a lock ends")[0]
        assert (first, count) == (0, 2)


def test_read_committed_skips_aborted_records(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name, share_isolation_level="read_committed")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    for ends in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(name, b"%d" % number, partition=0)
        assert producer.flush(30) == 0
        ends(30)
    with member(bootstrap, name, topic_id) as one:
        # 0-2 aborted, 3 its marker, 4-6 committed, 7 its marker.
        taken = [o for first, last, _ in eventually(one.take, what="records") for o in range(first, last + 1)]
        assert set(taken) & set(range(3)) == set()
        assert {4, 5, 6} <= set(taken)


def test_sessions_have_their_epochs(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name)
    with member(bootstrap, name, topic_id) as one:
        assert one.fetch(epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert one.fetch([(0, 0, ACCEPT)], epoch=0).error_code == ErrorCode.INVALID_REQUEST
        assert one.take(wait_ms=0) == []
        assert one.fetch(epoch=7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert one.acknowledge((0, 0, ACCEPT), epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        past = one.acknowledge((0, 0, ACCEPT))
        assert past.error_code == ErrorCode.INVALID_RECORD_STATE
        one.id = "x" * 37
        assert one.fetch().error_code == ErrorCode.INVALID_REQUEST


def test_tools_see_and_move_a_group(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name)
    produce(bootstrap, name, 10)
    with member(bootstrap, name, topic_id) as one, WireClient(bootstrap) as client:
        assert one.take(max_records=5) == [(0, 4, 1)]
        assert one.acknowledge((0, 4, ACCEPT)).error_code == 0
        assert lag(bootstrap, name) == 5
        shown = client.call(ShareGroupDescribeRequest(group_ids=[name]), 1).groups[0]
        assert (shown.group_state, shown.assignor_name, len(shown.members)) == ("Stable", "simple", 1)
        assert shown.members[0].assignment.topic_partitions[0].partitions == [0]
        listed = client.call(ListGroupsRequest(types_filter=["share"]), 5).groups
        assert [(g.group_type, g.protocol_type) for g in listed if g.group_id == name] == [("share", "share")]
        assert moved(client, name, 3).error_code == ErrorCode.NON_EMPTY_GROUP
        assert deleted(client, name) == ErrorCode.NON_EMPTY_GROUP
        assert one.beat(epoch=-1).member_epoch == -1
        one.fetch(epoch=-1)
        response = moved(client, name, 3)
        assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0)
        assert described(bootstrap, name) == (3, 7)
        with member(bootstrap, name, topic_id) as other:
            assert other.take() == [(3, 9, 1)]
            other.beat(epoch=-1)
        forget = DeleteShareGroupOffsetsRequest(
            group_id=name, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name)]
        )
        assert client.call(forget, 0).responses[0].error_code == 0
        assert described(bootstrap, name) is None
        assert deleted(client, name) == 0
        assert deleted(client, name) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_goes_on_where_it_was_after_the_broker_was_stopped(tmp_path: Path, name: str) -> None:
    with odradek.Broker(data_dir=tmp_path, config=SETTINGS) as first:
        topic_id = make_topic(first.bootstrap_servers, name)
        configure(first.bootstrap_servers, name)
        produce(first.bootstrap_servers, name, 10)
        with member(first.bootstrap_servers, name, topic_id) as one:
            assert one.take() == [(0, 9, 1)]
            assert one.acknowledge((0, 1, ACCEPT), (3, 4, ACCEPT), (5, 5, RELEASE)).error_code == 0
    with odradek.Broker(data_dir=tmp_path, config=SETTINGS) as second:
        with member(second.bootstrap_servers, name, topic_id) as one:
            counts = {o: n for first, last, n in one.take(max_records=50) for o in range(first, last + 1)}
        assert sorted(counts) == [2, 5, 6, 7, 8, 9]
        assert counts[5] == 2, "what was written of its deliveries is not forgotten"


def moved(client: WireClient, group: str, offset: int) -> Any:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=group, partitions=[partition])
    return client.call(AlterShareGroupOffsetsRequest(group_id=group, topics=[topic]), 0)


def deleted(client: WireClient, group: str) -> int:
    result = client.call(DeleteGroupsRequest(groups_names=[group]), 2).results[0]
    error: int = result.error_code
    return error
