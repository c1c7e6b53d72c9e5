"""Several links: a mirror of a mirror, a source with two mirrors, a mirror of two sources, and circles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import odradek
import pytest
from kafka import KafkaProducer
from odradek.admin import config_changes, group_offsets, mirrors, topic_changes, topics
from odradek.admin.session import Admin

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, admin_of, batches, odradek_command, produce, values

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture
def third() -> Iterator[odradek.Broker]:
    """A broker beside the pair."""
    with odradek.Broker() as broker:
        yield broker


@pytest.fixture
def third_admin(third: odradek.Broker) -> Iterator[Admin]:
    with closing(admin_of(third)) as admin:
        yield admin


def follow(admin: Admin, source: odradek.Broker, name: str, **properties: str) -> None:
    given = {"bootstrap.servers": source.bootstrap_servers, "topics": "orders", "groups": "app"} | properties
    mirrors.create_link(admin, name, given, dry_run=False)


def wait_equal(source: odradek.Broker, here: odradek.Broker, topic: str = "orders", name_here: str = "") -> None:
    """Waits until the mirror has all batches of the source."""
    wait_until(lambda: batches(here, name_here or topic) == batches(source, topic), f"{topic} is equal")


def write_transactions(broker: odradek.Broker) -> None:
    """Writes batches in each codec, then transactions of which every other one is aborted."""
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        produce(broker, "orders", 20, compression_type=codec)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t")) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send("orders", b"%d" % number).get(10)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def test_mirror_of_a_mirror_has_the_records_of_the_first_source(
    pair: Pair, third: odradek.Broker, third_admin: Admin
) -> None:
    write_transactions(pair.source)
    group_offsets.commit(pair.there, "app", {("orders", 0): 7})
    pair.create_link(topics="orders", groups="app")
    follow(third_admin, pair.here, "next")
    wait_equal(pair.source, third)
    assert values(third, "orders") == values(pair.source, "orders")
    write_transactions(pair.source)
    wait_equal(pair.source, third)
    wait_until(
        lambda: (
            {at: one.offset for at, one in group_offsets.committed(third_admin, "app").items()} == {("orders", 0): 7}
        )
    )
    ids = {topics.described_topics(admin, ["orders"])[0].topic_id for admin in (pair.there, pair.admin, third_admin)}
    assert len(ids) == 1
    config_changes.alter_configs(pair.there, "topic", "orders", {"retention.ms": ("SET", "86400000")}, dry_run=False)
    topic_changes.create_partitions(pair.there, {"orders": 2})
    wait_until(lambda: len(topics.described_topics(third_admin, ["orders"])[0].partitions) == 2)
    assert batches(pair.here, "orders") == batches(pair.source, "orders")


@pytest.mark.usefixtures("processes")
def test_last_of_a_chain_follows_the_middle_after_a_fail_over_to_it(
    pair: Pair, third: odradek.Broker, third_admin: Admin
) -> None:
    produce(pair.source, "orders", 10)
    with closing(KafkaProducer(bootstrap_servers=pair.source.bootstrap_servers, transactional_id="t")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"open").get(10)
        pair.create_link(topics="orders")
        follow(third_admin, pair.here, "next")
        wait_until(lambda: len(batches(third, "orders")) == len(batches(pair.source, "orders")) - 1)
        refused = odradek_command("mirror", "switch", "next", "--yes", "-b", third.bootstrap_servers)
        assert refused.returncode == 1 and "switch there first" in refused.stderr
        done = odradek_command("mirror", "fail-over", "dr", "--yes", "-b", pair.here.bootstrap_servers)
        assert done.returncode == 0, done.stderr
        producer.abort_transaction()
    produce(pair.here, "orders", 5, enable_idempotence=True, acks="all")
    wait_equal(pair.here, third)
    assert len(values(third, "orders")) == 15


@pytest.mark.usefixtures("processes")
def test_switch_to_a_mirror_leaves_the_source_to_its_other_mirror(
    pair: Pair, third: odradek.Broker, third_admin: Admin
) -> None:
    write_transactions(pair.source)
    pair.create_link(topics="orders")
    follow(third_admin, pair.source, "other")
    wait_equal(pair.source, pair.here)
    wait_equal(pair.source, third)
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    produce(pair.here, "orders", 3, enable_idempotence=True, acks="all")
    wait_equal(pair.source, third)
    progress = mirrors.read_progress(third_admin, "other")["orders", 0]
    assert progress.state == "following" and batches(third, "orders") != batches(pair.here, "orders")


def test_two_sources_are_followed_with_prefixes(pair: Pair, third: odradek.Broker, third_admin: Admin) -> None:
    write_transactions(pair.source)
    produce(third, "orders", 9)
    group_offsets.commit(pair.there, "app", {("orders", 0): 4})
    group_offsets.commit(third_admin, "app", {("orders", 0): 5})
    pair.create_link("eu", topics="orders", groups="app", prefix="eu.")
    follow(pair.admin, third, "us", prefix="us.")
    wait_equal(pair.source, pair.here, name_here="eu.orders")
    wait_equal(third, pair.here, name_here="us.orders")
    for name, offset in (("eu", 4), ("us", 5)):
        wait_until(
            lambda name=name, offset=offset: (
                group_offsets.committed(pair.admin, f"{name}.app")[f"{name}.orders", 0].offset == offset
                if group_offsets.committed(pair.admin, f"{name}.app")
                else False
            )
        )


@pytest.mark.parametrize("prefix", ["", "back."])
def test_circle_of_three_is_refused(prefix: str, pair: Pair, third: odradek.Broker, third_admin: Admin) -> None:
    produce(pair.source, "orders", 3)
    pair.create_link(topics="orders")
    follow(third_admin, pair.here, "next")
    wait_equal(pair.source, third)
    follow(pair.there, third, "last", prefix=prefix)
    refused = f"{prefix}orders"
    wait_until(lambda: refused in mirrors.read_report(pair.there, "last").refused)
    assert "a circle" in mirrors.read_report(pair.there, "last").refused[refused] or not prefix
    assert sorted(topics.list_topics(pair.there)) == ["__consumer_offsets", "orders"]
    produce(pair.source, "orders", 2)
    wait_equal(pair.source, third)
