"""Apache Kafka as the source of a link: every batch is here at its offset, while it writes, compacts and deletes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Producer
from odradek.admin import group_offsets, mirrors, topic_changes, topics
from odradek.admin.mirror_change import MirrorChange
from odradek.admin.session import Admin
from odradek.replication.mirror.change import SWITCH
from odradek.replication.mirror.link import LinkState

from compat_tests.java.tool import ToolHost
from compat_tests.mirror.dumped_logs import dumped
from compat_tests.mirror.mirrored_logs import admin_of, batches, values, write
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually


@pytest.fixture(scope="module")
def source(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("source")) as running:
        yield running


def test_copy_equals_the_source(source: ApacheKafka, tools: ToolHost) -> None:
    with closing(admin_of(source.bootstrap)) as there, odradek.Broker() as here:
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
        new = {
            "paid": topic_changes.NewTopic(1, 1),
            "state": topic_changes.NewTopic(1, 1, compacted),
            "cut": topic_changes.NewTopic(1, 1),
        }
        topic_changes.create_topics(there, new)
        write(source.bootstrap, "paid", 6)
        write(source.bootstrap, "cut", 2)
        topic_changes.delete_records(there, {("cut", 0): 60})
        group_offsets.commit(there, "app", {("paid", 0): 17})
        with closing(admin_of(here.bootstrap_servers)) as admin:
            link = {"bootstrap.servers": source.bootstrap, "topics": "paid|state|cut", "groups": "app"}
            mirrors.create_link(admin, "dr", link, dry_run=False)
            write(source.bootstrap, "state", 4)
            write(source.bootstrap, "paid", 4)
            for topic in ("paid", "cut"):
                eventually(
                    lambda topic=topic: batches(here.bootstrap_servers, topic) == batches(source.bootstrap, topic),
                    what=topic,
                )
                assert values(here.bootstrap_servers, topic) == values(source.bootstrap, topic)
            copied, original = (
                dumped(tools, map(Path, directories), "paid")
                for directories in (here.server.config.log_dirs, [source.data_dir])
            )
            assert copied == original and len(original) > 200
            # Both sides compact when they like: the last values of the keys are the same.
            eventually(lambda: _ends(admin, "state") == _ends(there, "state"), what="the ends are equal")
            newest = [
                {key: value for _, key, value in values(one, "state")}
                for one in (here.bootstrap_servers, source.bootstrap)
            ]
            assert newest[0] == newest[1]
            (of_source,) = topics.described_topics(there, ["paid"])
            (of_mirror,) = topics.described_topics(admin, ["paid"])
            assert of_mirror.topic_id == of_source.topic_id
            eventually(lambda: group_offsets.committed(admin, "app"), what="the group is there")
            assert {place: one.offset for place, one in group_offsets.committed(admin, "app").items()} == {
                ("paid", 0): 17
            }
            mirrors.set_state(admin, "dr", LinkState.PAUSED, dry_run=False)
            change = MirrorChange(admin, there, mirrors.shown_link("dr", link), ["cut", "paid", "state"], 60.0, print)
            change.producers_stopped = True
            change.run(SWITCH)


def _ends(admin: Admin, topic: str) -> int:
    from odradek.admin.log_offsets import list_offsets
    from odradek.protocol.log_places import LATEST

    return list_offsets(admin, {(topic, 0): LATEST})[topic, 0].offset


def test_three_brokers_follow_through_deaths(source: ApacheKafka, tmp_path: Path) -> None:
    with closing(admin_of(source.bootstrap)) as there, odradek.Cluster(brokers=3) as cluster:
        topic_changes.create_topics(there, {"flow": topic_changes.NewTopic(3, 1)})
        producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 1})
        with closing(admin_of(cluster.bootstrap_servers.split(",")[0])) as admin:
            link = {"bootstrap.servers": source.bootstrap, "topics": "flow", "replication.factor": "3"}
            mirrors.create_link(admin, "dr", link, dry_run=False)
        for victim in (1, 2, 3):
            for number in range(600):
                producer.produce("flow", b"%d-%d" % (victim, number), partition=number % 3)
            producer.flush()
            eventually(lambda: _is_led(cluster, "flow", 3), what="leaders")
            cluster.kill(victim)
            for number in range(300):
                producer.produce("flow", b"%d-%d again" % (victim, number), partition=number % 3)
            producer.flush()
            for index in range(3):
                want = batches(source.bootstrap, "flow", index)
                eventually(lambda index=index, want=want: _copied(cluster, "flow", index) == want, what=f"flow-{index}")
            cluster.restart(victim)


def _is_led(cluster: odradek.Cluster, topic: str, partitions: int) -> bool:
    try:
        return all(cluster.leader(topic, index) > 0 for index in range(partitions))
    except KeyError:
        return False


def _copied(cluster: odradek.Cluster, topic: str, index: int) -> list[tuple[int, ...]]:
    leader = cluster.leader(topic, index)
    if leader not in cluster.servers:
        return []
    address = cluster.servers[leader].addresses[0]
    try:
        return batches(address, topic, index)
    except (AssertionError, OSError):
        return []  # it has just moved
