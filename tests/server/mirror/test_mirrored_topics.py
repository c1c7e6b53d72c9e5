"""Topics of a real broker that follow those of another: batches, offsets, transactions, groups, refusals, and the change."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, PolicyViolationError
from kafka.structs import OffsetAndMetadata, TopicPartition
from odradek.admin import config_changes, configs, group_offsets, mirrors, topic_changes, topics
from odradek.admin.errors import ResponseError
from odradek.client.peers import SETUP_TIMEOUT_S
from odradek.replication.mirror.link import LinkState
from odradek.replication.mirror.progress import MirrorProgress
from odradek.server.mirror.followed import MirroredPartition
from odradek.server.mirror.link import LinkFollower
from odradek.server.mirror.source import Source, SourceView

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, batches, odradek_command, offsets, produce, values

pytestmark = pytest.mark.usefixtures("sockets")


def test_every_batch_is_there_with_its_offset_and_bytes(pair: Pair) -> None:
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        produce(pair.source, "orders", 20, compression_type=codec)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 100)
    pair.wait_equal("orders")
    produce(pair.source, "orders", 5, enable_idempotence=True, acks="all")
    pair.wait_for("orders", lambda one: one.offset == 105 and one.source_end == 105)
    pair.wait_equal("orders")
    (there,) = topics.described_topics(pair.there, ["orders"])
    (here,) = topics.described_topics(pair.admin, ["orders"])
    assert here.topic_id == there.topic_id


def test_transactions_and_their_markers_are_mirrored(pair: Pair) -> None:
    settings = {"bootstrap_servers": pair.source.bootstrap_servers, "transactional_id": "t"}
    with closing(KafkaProducer(**settings)) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send("paid", b"%d" % number)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        pair.create_link(topics="paid")
        pair.wait_for("paid", lambda one: one.offset == 12)
        producer.begin_transaction()
        producer.send("paid", b"open")
        producer.flush()
        assert values(pair.here, "paid") == [(0, b"0"), (4, b"2"), (8, b"4")]
        produced = pair.progress("paid")
        assert produced is not None and produced.offset == 12, "an open transaction is not there"
        producer.commit_transaction()
    pair.wait_for("paid", lambda one: one.offset == 14)
    pair.wait_equal("paid")
    assert values(pair.here, "paid")[-1] == (12, b"open")


def test_mirror_is_read_only(pair: Pair) -> None:
    produce(pair.source, "orders", 3)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 3)
    with (
        closing(KafkaProducer(bootstrap_servers=pair.here.bootstrap_servers)) as producer,
        pytest.raises(PolicyViolationError, match="mirror of link dr and read-only"),
    ):
        producer.send("orders", b"x").get(10)
    with closing(KafkaProducer(bootstrap_servers=pair.here.bootstrap_servers, transactional_id="t")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(KafkaError, match="PolicyViolationError"):
            producer.send("orders", b"x").get(10)
        producer.abort_transaction()
    with pytest.raises(ResponseError, match="mirror of link dr"):
        config_changes.alter_configs(pair.admin, "topic", "orders", {"retention.ms": ("SET", "1")}, dry_run=False)
    with pytest.raises(ResponseError, match="POLICY_VIOLATION"):
        topic_changes.delete_records(pair.admin, {("orders", 0): 2})
    config_changes.alter_configs(
        pair.admin, "topic", "orders", {"leader.replication.throttled.replicas": ("SET", "0:1")}, dry_run=False
    )
    assert [value for _, value in values(pair.here, "orders")] == [b"value 0", b"value 1", b"value 2"]


def test_partitions_configs_starts_and_new_topics_follow(pair: Pair) -> None:
    new = topic_changes.NewTopic(2, 1, {"retention.ms": "77000000"})
    topic_changes.create_topics(pair.there, {"orders-eu": new})
    produce(pair.source, "orders-eu", 40)
    pair.create_link(topics="orders-.*")
    pair.wait_for("orders-eu", lambda one: one.source_end >= 0)
    assert configs.own_configs(pair.admin, "orders-eu")["retention.ms"] == "77000000"
    topic_changes.create_partitions(pair.there, {"orders-eu": 3})
    topic_changes.create_topics(pair.there, {"orders-us": topic_changes.NewTopic(1, 1)})
    produce(pair.source, "orders-us", 4)
    pair.wait_for("orders-eu", lambda one: one.state == "following", index=2)
    pair.wait_for("orders-us", lambda one: one.offset == 4)
    topic_changes.delete_records(pair.there, {("orders-us", 0): 3})
    wait_until(lambda: values(pair.here, "orders-us") == [(3, b"value 3")])
    config_changes.alter_configs(pair.there, "topic", "orders-eu", {"retention.ms": ("SET", "88000000")}, dry_run=False)
    wait_until(lambda: configs.own_configs(pair.admin, "orders-eu")["retention.ms"] == "88000000")


def test_source_whose_records_are_all_deleted_has_its_end_here(pair: Pair) -> None:
    produce(pair.source, "orders", 9)
    topic_changes.delete_records(pair.there, {("orders", 0): 9})
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 9)
    produce(pair.source, "orders", 1)
    pair.wait_for("orders", lambda one: one.offset == 10)
    assert values(pair.here, "orders") == [(9, b"value 0")]


def test_groups_continue_where_they_were(pair: Pair) -> None:
    produce(pair.source, "orders", 10)
    for group, offset in (("app-1", 4), ("app-2", 7), ("other", 2)):
        group_offsets.commit(pair.there, group, {("orders", 0): offset})
    pair.create_link(topics="orders", groups="app-.*")
    wait_until(lambda: offsets(pair, "app-2") == {("orders", 0): 7} and offsets(pair, "app-1") == {("orders", 0): 4})
    group_offsets.commit(pair.there, "app-1", {("orders", 0): 6})
    wait_until(lambda: offsets(pair, "app-1") == {("orders", 0): 6})
    assert offsets(pair, "other") == {}
    group_offsets.commit(pair.there, "app-1", {("orders", 0): 999})
    wait_until(lambda: offsets(pair, "app-1") == {("orders", 0): 10})
    produce(pair.source, "orders", 5)
    wait_until(lambda: offsets(pair, "app-1") == {("orders", 0): 15})


def test_stop_does_not_wait_for_a_source_that_does_not_respond(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mirrors.create_link(
            pair.admin,
            "silent",
            {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}", "topics": "x"},
            dry_run=False,
        )
        silent.settimeout(60)
        accepted, _ = silent.accept()
        with accepted:
            began = time.monotonic()
            pair.here.restart()
            assert time.monotonic() - began < SETUP_TIMEOUT_S - 1, (
                "the first request to the source lasts for SETUP_TIMEOUT_S"
            )


def test_topic_that_was_made_anew_stops_and_others_go_on(pair: Pair) -> None:
    produce(pair.source, "orders", 3)
    produce(pair.source, "others", 3)
    pair.create_link(topics="o.*")
    pair.wait_for("orders", lambda one: one.offset == 3)
    topic_changes.delete_topics(pair.there, ["orders"])
    pair.wait_for("orders", lambda one: one.state == "missing")
    produce(pair.source, "orders", 5)
    pair.wait_for("orders", lambda one: one.state == "recreated" and "made anew" in one.reason)
    produce(pair.source, "others", 3)
    pair.wait_for("others", lambda one: one.offset == 6)
    assert len(values(pair.here, "orders")) == 3


def test_topic_of_the_name_is_not_taken_over(pair: Pair) -> None:
    produce(pair.source, "orders", 3)
    produce(pair.here, "orders", 1)
    pair.create_link(topics="orders")
    wait_until(lambda: "orders" in pair.here.server.mirror.made.links["dr"].refused)
    assert len(values(pair.here, "orders")) == 1
    pair.create_link("second", topics="orders", prefix="eu.")
    pair.wait_for("eu.orders", lambda one: one.offset == 3, link="second")


def test_restart_goes_on(pair: Pair) -> None:
    produce(pair.source, "orders", 3)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 3)
    pair.here.kill()
    produce(pair.source, "orders", 4)
    pair.here.restart()
    wait_until(lambda: len(batches(pair.here, "orders")) == len(batches(pair.source, "orders")))
    pair.wait_equal("orders")


@pytest.mark.usefixtures("processes")
def test_fail_over_keeps_what_is_there_and_gives_higher_producer_ids(pair: Pair) -> None:
    for _ in range(3):
        produce(pair.source, "orders", 5, enable_idempotence=True, acks="all")
    pair.create_link(topics="orders", groups=".*")
    group_offsets.commit(pair.there, "app", {("orders", 0): 9})
    pair.wait_for("orders", lambda one: one.offset == 15)
    wait_until(lambda: offsets(pair, "app") == {("orders", 0): 9})
    pair.source.kill()
    refused = odradek_command("mirror", "fail-over", "dr", "-b", pair.here.bootstrap_servers)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    done = odradek_command("mirror", "fail-over", "dr", "--yes", "--output", "json", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["topic"], row["offsets"], row["known_lag"]) == ("orders", 15, 0)
    produce(pair.here, "orders", 2, enable_idempotence=True, acks="all")
    ids = [(header[0], header[8]) for header in batches(pair.here, "orders")]
    assert min(one for offset, one in ids if offset >= 15) > max(one for offset, one in ids if offset < 15)
    assert [offset for offset, _ in values(pair.here, "orders")] == list(range(17))
    consumer = KafkaConsumer("orders", bootstrap_servers=pair.here.bootstrap_servers, group_id="app")
    with closing(consumer):
        read: list[int] = []
        while len(read) < 8:
            for records in consumer.poll(timeout_ms=500).values():
                read += [record.offset for record in records]
        assert read == list(range(9, 17))
        consumer.commit({TopicPartition("orders", 0): OffsetAndMetadata(17, "", -1)})
    deleted = odradek_command("mirror", "delete", "dr", "-b", pair.here.bootstrap_servers)
    assert deleted.returncode == 0, deleted.stderr


def test_stop_in_the_middle_of_a_round_is_reported_when_fetches_have_ended(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change opens the topics by what is reported last: fetches after it would write behind the floor of producer ids."""
    reading, may_go_on = threading.Event(), threading.Event()
    may_go_on.set()
    view, progress_of = Source.view, LinkFollower._progress
    fetches_when_final: list[bool] = []

    def held_view(source: Source) -> SourceView:
        reading.set()
        assert may_go_on.wait(30)
        return view(source)

    def noted(follower: LinkFollower, mirrored: MirroredPartition) -> MirrorProgress:
        progress = progress_of(follower, mirrored)
        if progress.is_final:
            fetches_when_final.append(bool(follower._fetchers))
        return progress

    monkeypatch.setattr(Source, "view", held_view)
    monkeypatch.setattr(LinkFollower, "_progress", noted)
    produce(pair.source, "orders", 3)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 3 and one.state == "following")
    may_go_on.clear()
    reading.clear()
    assert reading.wait(30)
    mirrors.set_state(pair.admin, "dr", LinkState.STOPPED, dry_run=False)
    wait_until(lambda: pair.here.server.mirror.made.links["dr"].link.state is LinkState.STOPPED)
    may_go_on.set()
    pair.wait_for("orders", lambda one: one.is_final)
    assert fetches_when_final and not any(fetches_when_final)


@pytest.mark.usefixtures("processes")
def test_fail_over_aborts_transactions_whose_ends_were_not_mirrored(pair: Pair) -> None:
    """A source gives records below its last stable offset, also those of a transaction that ended above it."""
    settings = {"bootstrap_servers": pair.source.bootstrap_servers}
    with (
        closing(KafkaProducer(**settings, transactional_id="ended")) as ended,
        closing(KafkaProducer(**settings, transactional_id="open")) as still_open,
    ):
        for producer in (ended, still_open):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("paid", b"x").get(10)
        ended.commit_transaction()
        pair.create_link(topics="paid")
        pair.wait_for("paid", lambda one: one.offset == 1)
        done = odradek_command("mirror", "fail-over", "dr", "--yes", "-b", pair.here.bootstrap_servers)
        assert done.returncode == 0 and not done.stderr, done.stderr
        still_open.abort_transaction()
    produce(pair.here, "paid", 1)
    assert values(pair.here, "paid") == [(2, b"value 0")], "the record, its abort, and the new record"


@pytest.mark.usefixtures("processes")
def test_switch_moves_everything_and_leaves_the_source_read_only(pair: Pair) -> None:
    produce(pair.source, "orders", 10)
    group_offsets.commit(pair.there, "app", {("orders", 0): 8})
    pair.create_link(topics="orders", groups="app")
    pair.wait_for("orders", lambda one: one.offset == 10)
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    with (
        closing(KafkaProducer(bootstrap_servers=pair.source.bootstrap_servers)) as producer,
        pytest.raises(PolicyViolationError),
    ):
        producer.send("orders", b"late").get(10)
    produce(pair.here, "orders", 1)
    assert len(values(pair.here, "orders")) == 11 and offsets(pair, "app") == {("orders", 0): 8}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("is_paused", [False, True], ids=["noticed", "paused"])
def test_switch_to_the_mirror_of_a_topic_that_was_made_anew_is_refused(pair: Pair, is_paused: bool) -> None:
    """Both logs have one length, and different records: those of the new topic would be left behind."""
    produce(pair.source, "orders", 3)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 3)
    if is_paused:
        mirrors.set_state(pair.admin, "dr", LinkState.PAUSED, dry_run=False)
        pair.wait_for("orders", lambda one: one.state == "paused")
    topic_changes.delete_topics(pair.there, ["orders"])
    wait_until(lambda: not topics.described_topics(pair.there, None))
    produce(pair.source, "orders", 3)
    if not is_paused:
        pair.wait_for("orders", lambda one: one.state == "recreated")
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 1 and "made anew: what is here is not its copy" in done.stderr, done
    produce(pair.source, "orders", 1)  # the source is not closed


@pytest.mark.usefixtures("processes")
def test_status_and_list_say_what_is(pair: Pair) -> None:
    produce(pair.source, "orders", 3)
    made = odradek_command(
        "mirror", "create", "dr", "--from", pair.source.bootstrap_servers, "--topics", "orders",
        "--from-setting", "client.id=hunter2", "-b", pair.here.bootstrap_servers,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    pair.wait_for("orders", lambda one: one.offset == 3 and one.state == "following")
    listed = odradek_command("mirror", "list", "--output", "json", "-b", pair.here.bootstrap_servers)
    assert json.loads(listed.stdout)[0]["topics"] == "orders" and "hunter2" not in listed.stdout
    shown = odradek_command("mirror", "status", "dr", "--output", "json", "-b", pair.here.bootstrap_servers)
    (row,) = json.loads(shown.stdout)
    assert (row["state"], row["lag"], row["behind_s"], row["source_end"]) == ("following", 0, 0.0, 3)
    for arguments in (("status", "nothing"), ("pause", "nothing"), ("fail-over", "nothing", "--yes")):
        missing = odradek_command("mirror", *arguments, "-b", pair.here.bootstrap_servers)
        assert missing.returncode == 3 and "there is dr" in missing.stderr
    paused = odradek_command("mirror", "pause", "dr", "-b", pair.here.bootstrap_servers)
    assert paused.returncode == 0
    pair.wait_for("orders", lambda one: one.state == "paused")
    produce(pair.source, "orders", 3)
    resumed = odradek_command("mirror", "resume", "dr", "-b", pair.here.bootstrap_servers)
    assert resumed.returncode == 0
    pair.wait_for("orders", lambda one: one.offset == 6)


@pytest.mark.usefixtures("processes")
def test_broker_without_a_link_imports_nothing_of_mirrors() -> None:
    program = (
        "import sys, odradek\nwith odradek.Broker() as broker:\n"
        " print([name for name in sys.modules if 'odradek.server.mirror' in name or name == 'odradek.admin.session'])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "['odradek.server.mirror', 'odradek.server.mirror.start']"
