"""A source that was restored from a backup: mirrored partitions stop, or are cut to what both have, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import odradek
import pytest
from odradek.admin import config_changes, mirrors, record_deletion, topic_changes
from odradek.admin.topic_changes import NewTopic
from odradek.client.connection import PeerConnection
from odradek.protocol.apis import APIS
from odradek.protocol.records.batch import iter_headers
from odradek.replication.mirror.link import LinkState
from odradek.server.mirror.source import Source, SourceView

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, admin_of, batches, data_of, odradek_command, produce, values

pytestmark = pytest.mark.usefixtures("sockets")

CUTS = "mirror.support.unclean.leader.election"


def backed_up(source: odradek.Broker, folder: Path) -> Callable[[], None]:
    """Backs up a broker's data. The result restores it."""
    data = data_of(source)
    source.kill()
    shutil.copytree(data, folder)
    source.restart()

    def restore() -> None:
        source.kill()
        shutil.rmtree(data)
        shutil.copytree(folder, data)
        source.restart()

    return restore


def test_restored_source_stops_the_partition_and_a_cut_keeps_what_it_takes(pair: Pair, tmp_path: Path) -> None:
    produce(pair.source, "orders", 5)
    restore = backed_up(pair.source, tmp_path / "backup")
    pair.create_link(topics="orders|others")
    produce(pair.source, "orders", 6)
    pair.wait_for("orders", lambda one: one.offset == 11)
    lost = values(pair.here, "orders")[5:]
    restore()
    produce(pair.source, "orders", 9)
    pair.wait_for("orders", lambda one: one.state == "diverged" and "CRC" in one.reason)
    produce(pair.source, "others", 3)
    pair.wait_for("others", lambda one: one.offset == 3)
    assert len(values(pair.here, "orders")) == 11, "nothing is cut before the operator decides"
    config_changes.alter_configs(pair.admin, "topic", "orders", {CUTS: ("SET", "true")}, dry_run=False)
    pair.wait_for(
        "orders", lambda one: one.offset == 14 and one.state == "following" and "cut to offset 5" in one.reason
    )
    pair.wait_equal("orders")
    (line,) = (data_of(pair.here) / "odradek-mirror-cuts.jsonl").read_text().splitlines()
    kept = json.loads(line)
    assert (kept["topic"], kept["partition"], kept["first_offset"], kept["end_offset"]) == ("orders", 0, 5, 11)
    found = odradek.scan(kept["directory"]).to_table().to_pylist()
    assert [(record["offset"], record["value"]) for record in found] == lost
    pair.here.restart()
    pair.wait_equal("orders")
    assert Path(kept["directory"]).is_dir(), "a start leaves what was kept"


@pytest.mark.usefixtures("processes")
def test_switch_to_a_mirror_that_has_diverged_is_refused_though_both_logs_have_one_length(
    pair: Pair, tmp_path: Path
) -> None:
    produce(pair.source, "orders", 5)
    restore = backed_up(pair.source, tmp_path / "backup")
    pair.create_link(topics="orders")
    produce(pair.source, "orders", 6)
    pair.wait_for("orders", lambda one: one.offset == 11)
    restore()
    produce(pair.source, "orders", 6, linger_ms=500)
    pair.wait_for("orders", lambda one: one.state == "diverged")
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 1 and "orders-0 is diverged" in done.stderr, done
    produce(pair.source, "orders", 1)  # the source is not closed


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_switch_of_a_paused_link_is_refused_when_the_source_lost_records_and_wrote_others(
    pair: Pair, tmp_path: Path, policy: str
) -> None:
    topic_changes.create_topics(pair.there, {"orders": NewTopic(2, 1, {"cleanup.policy": policy})})
    produce(pair.source, "orders", 9, linger_ms=500)
    restore = backed_up(pair.source, tmp_path / "backup")
    pair.create_link(topics="orders")
    produce(pair.source, "orders", 9, linger_ms=500)
    pair.wait_equal("orders", 0)
    pair.wait_equal("orders", 1)
    mirrors.set_state(pair.admin, "dr", LinkState.PAUSED, dry_run=False)
    pair.wait_for("orders", lambda one: one.state == "paused", 0)
    pair.wait_for("orders", lambda one: one.state == "paused", 1)
    restore()
    produce(pair.source, "orders", 9, linger_ms=500)
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 1 and "has other records at offset" in done.stderr, done
    produce(pair.source, "orders", 1)  # the source is not closed
    done = odradek_command("mirror", "resume", "dr", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 0, done
    wait_until(lambda: "diverged" in {one.state for one in mirrors.read_progress(pair.admin, "dr").values()})


@pytest.mark.usefixtures("processes")
def test_switch_of_a_paused_link_with_all_of_the_source_succeeds(pair: Pair) -> None:
    produce(pair.source, "orders", 9)
    produce(pair.source, "emptied", 9)
    pair.create_link(topics="orders|emptied")
    pair.wait_for("orders", lambda one: one.offset == 9)
    pair.wait_for("emptied", lambda one: one.offset == 9)
    record_deletion.trim_topic(pair.there, "emptied", None, None, dry_run=False)
    mirrors.set_state(pair.admin, "dr", LinkState.PAUSED, dry_run=False)
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", pair.here.bootstrap_servers)
    assert done.returncode == 0, done
    produce(pair.here, "orders", 1)


def test_source_that_ends_earlier_is_followed_where_the_link_cuts(pair: Pair, tmp_path: Path) -> None:
    produce(pair.source, "orders", 5)
    restore = backed_up(pair.source, tmp_path / "backup")
    pair.create_link(topics="orders", mirror_support_unclean_leader_election="true")
    produce(pair.source, "orders", 6)
    pair.wait_for("orders", lambda one: one.offset == 11)
    restore()
    pair.wait_for("orders", lambda one: one.offset == 5 and "the source ends at offset 5" in one.reason)
    pair.wait_equal("orders")


def replicas(cluster: odradek.Cluster, topic: str) -> set[bytes]:
    """The batches of each replica, on the disk."""
    found = set()
    for server in cluster.servers.values():
        (directory,) = server.config.log_dirs
        data = b"".join(one.read_bytes() for one in sorted(Path(directory, f"{topic}-0").glob("*.log")))
        found.add(b"".join(bytes(data[at : at + header.size]) for at, header in iter_headers(data)))
    return found


def test_all_replicas_are_cut_and_equal(tmp_path: Path) -> None:
    with odradek.Broker() as source, odradek.Cluster(brokers=3) as cluster:
        produce(source, "orders", 5)
        restore = backed_up(source, tmp_path / "backup")
        produce(source, "orders", 20)
        with closing(admin_of(cluster)) as admin:
            link = {
                "bootstrap.servers": source.bootstrap_servers,
                "topics": "orders",
                "replication.factor": "3",
                CUTS: "true",
            }
            mirrors.create_link(admin, "dr", link, dry_run=False)

            def offset(want: int) -> bool:
                progress = mirrors.read_progress(admin, "dr").get(("orders", 0))
                return progress is not None and progress.offset == want and progress.source_end == want

            wait_until(lambda: offset(25))
            restore()
            produce(source, "orders", 7)
            wait_until(lambda: offset(12))
            (data,) = source.server.config.log_dirs
            want = b"".join(one.read_bytes() for one in sorted(Path(data, "orders-0").glob("*.log")))
            crcs = [header.crc for _, header in iter_headers(want)]
            wait_until(lambda: len(replicas(cluster, "orders")) == 1)
            (replica,) = replicas(cluster, "orders")
            assert [header.crc for _, header in iter_headers(replica)] == crcs


#: The last versions without ids of topics, as of Apache Kafka 2.7.
WITHOUT_IDS = {"Metadata": 9, "Fetch": 12}


def test_topic_without_an_id_that_is_made_anew_is_noticed(pair: Pair) -> None:
    """Before Apache Kafka 2.8 topics have no ids, and the new topic's leader has the epoch of the first one's."""
    learn, view = PeerConnection._learn_versions, Source.view
    views: list[SourceView] = []

    def learn_old(connection: PeerConnection, response: Any) -> None:
        for one in response.api_keys if response is not None else ():
            one.max_version = min(one.max_version, WITHOUT_IDS.get(APIS[one.api_key].name, one.max_version))
        learn(connection, response)

    def same_view(source: Source) -> SourceView:
        """The view before the deletion, as if both fell between two reads of the metadata."""
        views.append(views[0] if views and views[0].topics else view(source))
        return views[0] if views[0].topics else views.pop(0)

    produce(pair.source, "orders", 4)
    with patch.object(PeerConnection, "_learn_versions", learn_old), patch.object(Source, "view", same_view):
        pair.create_link(topics="orders")
        pair.wait_for("orders", lambda one: one.offset == 4 and one.state == "following")
        assert views[0].topics["orders"].id_text == ""
        before = batches(pair.here, "orders")
        topic_changes.delete_topics(pair.there, ["orders"])
        produce(pair.source, "orders", 9)
        pair.wait_for("orders", lambda one: one.state == "diverged")
        assert batches(pair.here, "orders") == before


@pytest.mark.usefixtures("processes")
def test_verify_compares_each_batch_and_names_the_first_difference(pair: Pair) -> None:
    for codec in (None, "gzip", "zstd"):
        produce(pair.source, "orders", 20, compression_type=codec)
    produce(pair.source, "others", 7)
    pair.create_link(topics="orders|others")
    pair.wait_for("orders", lambda one: one.offset == 60)
    pair.wait_for("others", lambda one: one.offset == 7)
    command = ("mirror", "verify", "dr", "--output", "json", "-b", pair.here.bootstrap_servers)
    for options in ((), ("--whole",)):
        done = odradek_command(*command, *options)
        assert done.returncode == 0, done.stderr
        rows = {row["topic"]: row for row in json.loads(done.stdout)}
        assert rows["orders"]["differences"] == 0 and (rows["orders"]["first"], rows["orders"]["end"]) == (0, 60)
    assert rows["orders"]["batches"] == len(batches(pair.source, "orders"))
    # A record of the disk here changes: its CRC is wrong. A broker does not read what it sends.
    (log,) = (data_of(pair.here) / "others-0").glob("*.log")
    damaged = bytearray(log.read_bytes())
    damaged[-1] ^= 1
    log.write_bytes(damaged)
    done = odradek_command(*command, "--whole")
    assert done.returncode == 1 and "1 partition differ" in done.stderr, done.stderr
    rows = {row["topic"]: row for row in json.loads(done.stdout)}
    assert rows["orders"]["differences"] == 0 and "damaged here" in rows["others"]["first_difference"]
    missing = odradek_command(*command, "--topic", "nothing")
    assert missing.returncode == 3
