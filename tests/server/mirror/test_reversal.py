"""The way back: the former source follows the cluster that took its place, and a switch leads back without a loss."""

from __future__ import annotations

import json
from contextlib import closing

import odradek
import pytest
from kafka import KafkaProducer
from kafka.errors import PolicyViolationError
from odradek.admin import group_offsets, mirrors, topic_changes

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, batches, data_of, odradek_command, offsets, produce, values

pytestmark = pytest.mark.usefixtures("sockets", "processes")


def command(*arguments: str) -> None:
    done = odradek_command("mirror", *arguments)
    assert done.returncode == 0, done.stderr


def test_fail_over_reverse_and_switch_back_lose_nothing(pair: Pair) -> None:
    here, source = pair.here.bootstrap_servers, pair.source.bootstrap_servers
    produce(pair.source, "orders", 10)
    group_offsets.commit(pair.there, "app", {("orders", 0): 4})
    pair.create_link(topics="orders", groups="app")
    pair.wait_for("orders", lambda one: one.offset == 10)
    wait_until(lambda: offsets(pair, "app") == {("orders", 0): 4})
    command("pause", "dr", "-b", here)
    pair.wait_for("orders", lambda one: one.state == "paused")
    produce(pair.source, "orders", 6)  # these never reach the mirror
    lost = values(pair.source, "orders")[10:]
    command("fail-over", "dr", "--yes", "-b", here)
    produce(pair.here, "orders", 8, enable_idempotence=True, acks="all")
    group_offsets.commit(pair.admin, "app", {("orders", 0): 12})

    planned = odradek_command("mirror", "reverse", "dr", "--dry-run", "-b", here)
    assert planned.returncode == 0 and "orders" in planned.stdout, planned.stderr
    assert len(values(pair.source, "orders")) == 16 and not mirrors.read_links(pair.there)
    command("reverse", "dr", "--yes", "-b", here)
    assert not mirrors.read_links(pair.admin) and list(mirrors.read_links(pair.there)) == ["dr-back"]
    wait_until(lambda: batches(pair.source, "orders") == batches(pair.here, "orders"))
    with (
        closing(KafkaProducer(bootstrap_servers=source)) as producer,
        pytest.raises(PolicyViolationError, match="link dr-back"),
    ):
        producer.send("orders", b"late").get(10)
    (line,) = (data_of(pair.source) / "odradek-mirror-cuts.jsonl").read_text().splitlines()
    kept = odradek.scan(json.loads(line)["directory"]).to_table().to_pylist()
    assert [(record["offset"], record["value"]) for record in kept] == lost
    wait_until(lambda: group_offsets.committed(pair.there, "app")["orders", 0].offset == 12)

    produce(pair.here, "orders", 3)
    command("switch", "dr-back", "--yes", "-b", source)
    produce(pair.source, "orders", 2, enable_idempotence=True, acks="all")
    assert [offset for offset, _ in values(pair.source, "orders")] == list(range(23))
    assert batches(pair.source, "orders")[: len(batches(pair.here, "orders"))] == batches(pair.here, "orders")
    # And once more in the first direction: the cluster that was switched from has nothing to cut.
    command("reverse", "dr-back", "--as", "dr", "--yes", "-b", source)
    wait_until(lambda: batches(pair.source, "orders") == batches(pair.here, "orders"))
    assert not (data_of(pair.here) / "odradek-mirror-cuts.jsonl").exists()


def test_reversal_before_a_switch_is_refused(pair: Pair) -> None:
    produce(pair.source, "orders", 3)
    pair.create_link(topics="orders")
    pair.wait_for("orders", lambda one: one.offset == 3)
    refused = odradek_command("mirror", "reverse", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert refused.returncode == 1 and "comes first" in refused.stderr
    produce(pair.source, "orders", 1)
    pair.wait_for("orders", lambda one: one.offset == 4)


def test_open_transaction_of_the_former_source_is_cut_and_its_id_is_free(pair: Pair) -> None:
    produce(pair.source, "paid", 2)
    settings = {"bootstrap_servers": pair.source.bootstrap_servers, "transactional_id": "t"}
    with closing(KafkaProducer(**settings)) as producer:
        producer.init_transactions()
        pair.create_link(topics="paid")
        pair.wait_for("paid", lambda one: one.offset == 2)
        producer.begin_transaction()
        producer.send("paid", b"open").get(10)
        command("fail-over", "dr", "--yes", "-b", pair.here.bootstrap_servers)
        produce(pair.here, "paid", 1)
        command("reverse", "dr", "--yes", "-b", pair.here.bootstrap_servers)
        wait_until(lambda: batches(pair.source, "paid") == batches(pair.here, "paid"))
        producer.abort_transaction()
    topic_changes.create_topics(pair.there, {"other": topic_changes.NewTopic(1, 1)})
    with closing(KafkaProducer(**settings)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("other", b"x").get(10)
        producer.commit_transaction()
    assert batches(pair.source, "paid") == batches(pair.here, "paid"), "no marker of the former source is written"


def test_link_with_a_prefix_is_reversed_and_leads_back(pair: Pair) -> None:
    here, source = pair.here.bootstrap_servers, pair.source.bootstrap_servers
    produce(pair.source, "orders", 10)
    produce(pair.here, "orders", 3)  # another topic of the name
    group_offsets.commit(pair.there, "app", {("orders", 0): 4})
    pair.create_link(topics="orders", groups="app", prefix="eu.")
    pair.wait_for("eu.orders", lambda one: one.offset == 10)
    wait_until(lambda: offsets(pair, "eu.app") == {("eu.orders", 0): 4})
    command("fail-over", "dr", "--yes", "-b", here)
    produce(pair.source, "orders", 2)  # only there
    produce(pair.here, "eu.orders", 5, enable_idempotence=True, acks="all")
    group_offsets.commit(pair.admin, "eu.app", {("eu.orders", 0): 13})
    command("reverse", "dr", "--yes", "-b", here)
    wait_until(lambda: batches(pair.source, "orders") == batches(pair.here, "eu.orders"))
    assert len(values(pair.source, "orders")) == 15 and len(values(pair.here, "orders")) == 3
    wait_until(lambda: group_offsets.committed(pair.there, "app")["orders", 0].offset == 13)
    command("verify", "dr-back", "--whole", "-b", source)
    command("switch", "dr-back", "--yes", "-b", source)
    produce(pair.source, "orders", 4, enable_idempotence=True, acks="all")
    command("reverse", "dr-back", "--as", "dr", "--yes", "-b", source)
    wait_until(lambda: batches(pair.source, "orders") == batches(pair.here, "eu.orders"))
    assert len(values(pair.here, "eu.orders")) == 19 and len(values(pair.here, "orders")) == 3
    assert mirrors.read_links(pair.admin)["dr"]["prefix"] == "eu."
