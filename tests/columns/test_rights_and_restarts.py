"""Scans through brokers: the right to read comes before the files, and a broker that starts again ends no scan."""

from __future__ import annotations

import threading
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from odradek.client.error_kinds import ErrorKind
from odradek.columns import ClusterError, ScanDataset, scan

from compat_tests.cli.commands import odradek_command

pytestmark = pytest.mark.usefixtures("processes")

USERS = {"admin": "admin-secret", "ann": "ann-secret"}
#: Records of 1 KB in segments of 1 MiB, the smallest that a broker takes.
COUNT = 2_000


def fill(settings: dict[str, object], topic: str) -> None:
    admin = AdminClient(settings)
    for made in admin.create_topics([NewTopic(topic, 1, config={"segment.bytes": "1048576"})]).values():
        made.result(30)
    producer = Producer(settings)
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number + b"x" * 1_000, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def allow(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation) -> None:
    rule = AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:ann", "*", operation, AclPermissionType.ALLOW
    )  # fmt: skip
    for made in admin.create_acls([rule]).values():
        made.result(30)


def test_files_of_a_topic_need_the_right_to_read_it(tmp_path: Path) -> None:
    security = odradek.Security("SASL_PLAINTEXT", "SCRAM-SHA-256", users=USERS, authorizer=True)
    with odradek.Broker(data_dir=tmp_path, security=security) as broker:
        settings = dict(broker.client_settings("confluent-kafka"))
        fill(settings, "secret")
        admin = AdminClient(settings)
        allow(admin, ResourceType.TOPIC, "secret", AclOperation.DESCRIBE)
        allow(admin, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
        of_ann = dict(broker.client_settings("java", "ann"))
        with pytest.raises(ClusterError, match="topic secret: not authorized to read it") as denied:
            scan("secret", client=of_ann)
        assert denied.value.kind == ErrorKind.DENIED
        words = [part for name, value in of_ann.items() for part in ("-X", f"{name}={value}")]
        done = odradek_command("query", "select count(*) from secret", *words)
        assert done.status == 5 and "not authorized to read it" in done.err and "Traceback" not in done.err
        allow(admin, ResourceType.TOPIC, "secret", AclOperation.READ)
        found = scan("secret", client=of_ann)
        assert any(split.path is not None for split in found.splits) and found.count() == COUNT


def test_a_broker_that_starts_again_ends_no_scan(tmp_path: Path) -> None:
    with odradek.Broker(data_dir=tmp_path) as broker:
        fill({"bootstrap.servers": broker.bootstrap_servers}, "orders")
        found = scan("orders", bootstrap_servers=broker.bootstrap_servers, columns=["offset"])
        assert [split.path is None for split in found.splits][-1] and len(found.splits) > 1
        batches = iter(found)
        rows = next(batches).num_rows
        broker.kill()
        again = threading.Timer(1.0, broker.restart)
        again.start()
        rows += sum(batch.num_rows for batch in batches)
        again.join()
        assert rows == COUNT and ScanDataset(found).count_rows() == COUNT
