"""Older releases of Apache Kafka as the source of a link: 3.9, and 2.8 with ZooKeeper, whose topics have no ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import odradek
import pytest
from odradek.admin import group_offsets, mirrors, topic_changes, topics
from odradek.admin.session import Admin

from compat_tests.broker_process import BrokerProcess
from compat_tests.cli.commands import odradek_command
from compat_tests.java.fetch import LAST_OF_3, OLDER, WITH_ZOOKEEPER, is_complete
from compat_tests.java.tool import ToolHost
from compat_tests.mirror.dumped_logs import dumped
from compat_tests.mirror.mirrored_logs import admin_of, batches, values, write
from compat_tests.needed_tools import missing
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually
from compat_tests.zookeeper_kafka import ZooKeeperKafka

#: The protocol before topics had ids (KIP-516).
WITHOUT_IDS = {"inter.broker.protocol.version": "2.7"}


@pytest.fixture(scope="module", params=OLDER)
def source(
    java_tools: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    version: str = request.param
    if not is_complete(version):
        missing(f"Apache Kafka {version}: run `python -m compat_tests.java.fetch` (needs Maven)")
    folder = tmp_path_factory.mktemp("source")
    kafka = ZooKeeperKafka(folder, WITHOUT_IDS) if version == WITH_ZOOKEEPER else ApacheKafka(folder, version=LAST_OF_3)
    with kafka as running:
        yield running


def test_plan_recommends_a_mirror_where_no_node_can_join(source: BrokerProcess) -> None:
    done = odradek_command("migrate", "plan", "--output", "json", "-b", source.bootstrap)
    findings = done.json[0]["findings"]
    advised = [one for one in findings if one["verdict"] == "stops" and "odradek mirror create" in one["advice"]]
    assert bool(advised) is isinstance(source, ZooKeeperKafka), done.out


def state(admin: Admin, topic: str) -> str:
    progress = mirrors.read_progress(admin, "dr").get((topic, 0))
    return progress.state if progress is not None else ""


def test_copy_equals_the_source_and_a_new_topic_of_the_name_is_noticed(source: BrokerProcess, tools: ToolHost) -> None:
    with closing(admin_of(source.bootstrap)) as there, odradek.Broker() as here:
        topic_changes.create_topics(there, {name: topic_changes.NewTopic(1, 1) for name in ("paid", "cut", "anew")})
        write(source.bootstrap, "paid", 6)
        write(source.bootstrap, "cut", 2)
        write(source.bootstrap, "anew", 0)
        topic_changes.delete_records(there, {("cut", 0): 60})
        group_offsets.commit(there, "app", {("paid", 0): 17})
        with closing(admin_of(here.bootstrap_servers)) as admin:
            link = {"bootstrap.servers": source.bootstrap, "topics": "paid|cut|anew", "groups": "app"}
            mirrors.create_link(admin, "dr", link, dry_run=False)
            write(source.bootstrap, "paid", 4)
            for topic in ("paid", "cut", "anew"):
                eventually(
                    lambda topic=topic: batches(here.bootstrap_servers, topic) == batches(source.bootstrap, topic),
                    what=topic,
                )
                assert values(here.bootstrap_servers, topic) == values(source.bootstrap, topic)
            for topic in ("paid", "anew"):
                copied = dumped(tools, map(Path, here.server.config.log_dirs), topic)
                assert copied == dumped(tools, [source.data_dir], topic) and len(copied) > 200
            eventually(lambda: group_offsets.committed(admin, "app"), what="the group is there")
            assert group_offsets.committed(admin, "app")["paid", 0].offset == 17
            topic_changes.create_partitions(there, {"paid": 2})
            eventually(lambda: len(topics.described_topics(admin, ["paid"])[0].partitions) == 2, what="partitions")
            before = batches(here.bootstrap_servers, "anew")
            topic_changes.delete_topics(there, ["anew"])
            eventually(lambda: "anew" not in topics.list_topics(there), what="the deletion")
            eventually(
                lambda: not topic_changes.create_topics(there, {"anew": topic_changes.NewTopic(1, 1)})[0].error_code,
                what="the new topic",
            )
            write(source.bootstrap, "anew", 9)
            eventually(lambda: state(admin, "anew") in ("recreated", "diverged"), what="the new topic is noticed")
            assert batches(here.bootstrap_servers, "anew") == before
            assert state(admin, "paid") == "following"
