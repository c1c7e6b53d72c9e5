"""Open uploads of segments that are not in the metadata: the leader aborts them, and the deletion of a topic all of its."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import boto3
import odradek
import pytest
from confluent_kafka.admin import AdminClient
from odradek.protocol.uuids import uuid_to_text
from odradek.server.remote import subsystem, upload_sweep

from compat_tests.recipes import eventually
from compat_tests.tiers import tiered

TOPIC, BUCKET = "orders", "tiers"
DEADLINE_S = 60


def test_leader_aborts_uploads_of_segments_that_are_deleted(
    s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_sweep, "INTERVAL_S", 0.2)
    monkeypatch.setattr(subsystem, "LOOK_S", 0.1)
    folder = f"prod/{tmp_path.name}"
    store = {f"rsm.config.{key}": value for key, value in s3.items()} | {"rsm.config.url": f"s3://{BUCKET}/{folder}"}
    config = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "objects",
        "remote.log.manager.task.interval.ms": "200",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        **store,
    }
    client: Any = boto3.client(
        "s3", endpoint_url=s3["store.endpoint"], aws_access_key_id="testing", aws_secret_access_key="testing",
        region_name="us-east-1",
    )  # fmt: skip

    def begin(name: str) -> None:
        client.create_multipart_upload(Bucket=BUCKET, Key=name)

    def left() -> set[str]:
        uploads = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return {one["Key"] for one in uploads if one["Key"].startswith(folder)}

    def objects() -> list[str]:
        return [one["Key"] for one in client.list_objects_v2(Bucket=BUCKET, Prefix=folder).get("Contents", [])]

    with odradek.Broker(config=config) as broker:
        tiered.make_topic(broker.bootstrap_servers, name=TOPIC)
        for _ in range(30):
            broker.topic(TOPIC).send(bytes(100_000))
        log = eventually(lambda: [one for one in objects() if one.endswith(".log")], what="it is copied")[0]
        place = log.rpartition("/")[0]
        other = place.rpartition("-")[0].rpartition("-")[0]
        stale = {
            f"{place}/{7:020}-{uuid_to_text(secrets.token_bytes(16))}.log",
            log.replace(".log", ".index"),  # the copy of its segment has ended
        }
        kept = {
            f"{other}-0-{uuid_to_text(secrets.token_bytes(16))}/{7:020}-{uuid_to_text(secrets.token_bytes(16))}.log",
            f"{folder}/of-a-person",
        }
        for name in stale | kept:
            begin(name)
        eventually(lambda: not stale & left(), what="stale uploads are aborted", deadline_s=DEADLINE_S)
        assert left() == kept
        monkeypatch.setattr(upload_sweep, "INTERVAL_S", 1e9)  # what was there at two looks is not aborted by a third
        begin(stale.pop())
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        (done,) = admin.delete_topics([TOPIC]).values()
        done.result(DEADLINE_S)
        eventually(lambda: not objects(), what="the store is empty", deadline_s=DEADLINE_S)
        eventually(lambda: len(left()) == 2, what="uploads of the topic are aborted", deadline_s=DEADLINE_S)
