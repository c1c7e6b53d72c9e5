"""Multipart uploads of brokers that were killed: the next attempt and the deletion of their segment abort them."""

from __future__ import annotations

import http.server
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest
from odradek.tiers.leader_tasks import CopyPlan
from odradek.tiers.named_store import make_store
from odradek.tiers.object_names import object_name
from odradek.tiers.open_uploads import Keys, OpenUploads, Place, open_uploads, signed_headers
from odradek.tiers.segment_metadata import COPY_SEGMENT_FINISHED
from odradek.tiers.store import PartType, RemoteStorageError, RemoteStore

from compat_tests.recipes import eventually

LARGE_BYTES = 20 << 20
CHUNK = {"chunk.size.bytes": str(5 << 20)}
#: Copies a log of which only the first part is there: the process waits for the rest until it is killed.
#: An uploader that dies at its start leaves the writer of its pipe waiting.
pytestmark = pytest.mark.timeout(120)
UPLOADER = """
import pickle, sys
from odradek.tiers.named_store import make_store
config, segment, parts = pickle.loads(bytes.fromhex(sys.stdin.readline()))
make_store("objects", config).copy_log_segment_data(segment, parts)
"""


@pytest.fixture
def config(s3: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return s3 | CHUNK | {"url": f"{s3['url']}/{tmp_path.name}"}


@pytest.fixture
def client(s3: dict[str, str]) -> Any:
    import boto3

    return boto3.client(
        "s3", endpoint_url=s3["store.endpoint"], aws_access_key_id="testing", aws_secret_access_key="testing",
        region_name="us-east-1",
    )  # fmt: skip


def open_names(client: Any) -> list[str]:
    return [one["Key"] for one in client.list_multipart_uploads(Bucket="tiers").get("Uploads", [])]


def large(plan: CopyPlan, log: Path) -> CopyPlan:
    return plan._replace(segment=plan.segment._replace(size_bytes=LARGE_BYTES), parts=plan.parts._replace(log=log))


def kill_in_upload(config: dict[str, str], plan: CopyPlan, client: Any, tmp_path: Path) -> None:
    """Leaves what a broker leaves that is killed while it uploads a log."""
    import pickle

    fifo = tmp_path / "held.log"
    os.mkfifo(fifo)
    plan = large(plan, fifo)
    process = subprocess.Popen([sys.executable, "-c", UPLOADER], stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write(pickle.dumps((config, plan.segment, plan.parts)).hex().encode() + b"\n")
        process.stdin.flush()
        with fifo.open("wb", buffering=0) as file:
            file.write(bytes(6 << 20))
            eventually(lambda: open_names(client), what="the upload has begun")
            process.kill()
            process.wait(30)
    finally:
        process.kill()
        process.wait(30)
        fifo.unlink()


@pytest.mark.slow
def test_repeated_copy_leaves_no_upload_of_the_killed_one(
    config: dict[str, str], plans: list[CopyPlan], client: Any, tmp_path: Path
) -> None:
    kill_in_upload(config, plans[0], client, tmp_path)
    (name,) = open_names(client)
    assert name.endswith(object_name(plans[0].segment, PartType.LOG))
    log = tmp_path / "whole.log"
    log.write_bytes(os.urandom(LARGE_BYTES))
    plan, store = large(plans[0], log), make_store("objects", config)
    store.copy_log_segment_data(plan.segment, plan.parts)
    assert open_names(client) == []
    assert store.fetch_log_segment(plan.segment, 0, LARGE_BYTES) == log.read_bytes()
    delete(store, plan)


@pytest.mark.slow
@pytest.mark.parametrize("is_bulk", [False, True])
def test_deletion_of_an_interrupted_copy_aborts_its_upload_and_no_other(
    config: dict[str, str], plans: list[CopyPlan], client: Any, tmp_path: Path, is_bulk: bool
) -> None:
    store: Any = make_store("objects", config)
    prefix = config["url"].removeprefix("s3://tiers/")
    other = f"{prefix}/{object_name(plans[1].segment, PartType.LOG)}"
    upload = client.create_multipart_upload(Bucket="tiers", Key=other)["UploadId"]
    kill_in_upload(config, plans[0], client, tmp_path)
    assert len(open_names(client)) == 2
    if is_bulk:
        finished = plans[1].segment._replace(state=COPY_SEGMENT_FINISHED)
        store.delete_log_segments([plans[0].segment, finished])
    else:
        store.delete_log_segment_data(plans[0].segment)
    assert open_names(client) == [other]
    client.abort_multipart_upload(Bucket="tiers", Key=other, UploadId=upload)
    assert list(store.objects()) == []


@pytest.mark.slow
def test_more_uploads_than_one_response_has_are_found(s3: dict[str, str], client: Any, tmp_path: Path) -> None:
    names = [f"{tmp_path.name}/a b+{number}" for number in range(1_005)]
    for name in names:
        client.create_multipart_upload(Bucket="tiers", Key=name)
    uploads = open_uploads("s3://tiers", {key.removeprefix("store."): value for key, value in s3.items()})
    assert uploads is not None
    assert uploads.abort(f"{tmp_path.name}/") == len(names)
    assert open_names(client) == []


def delete(store: RemoteStore, plan: CopyPlan) -> None:
    store.delete_log_segment_data(plan.segment)
    assert list(store.objects()) == []


class FailingBucket(http.server.BaseHTTPRequestHandler):
    status = 403

    def do_GET(self) -> None:
        self.server.asked += 1  # type: ignore[attr-defined]
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def failing_bucket(sockets: None) -> Iterator[Any]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (FailingBucket,), {}))
    server.asked = 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def uploads_at(server: Any) -> OpenUploads:
    return OpenUploads(Place(f"http://127.0.0.1:{server.server_address[1]}/tiers", "r"), Keys("a", "b", None))


def test_bucket_that_does_not_allow_it_is_named_once_and_not_asked_again(
    failing_bucket: Any, caplog: pytest.LogCaptureFixture
) -> None:
    uploads = uploads_at(failing_bucket)
    with caplog.at_level(logging.WARNING):
        assert uploads.abort("x") == uploads.abort("y") == 0
    (line,) = caplog.messages
    assert "lifecycle rule" in line and "403" in line and failing_bucket.asked == 1


def test_server_that_fails_is_a_retriable_error(failing_bucket: Any) -> None:
    failing_bucket.RequestHandlerClass.status = 503
    with pytest.raises(RemoteStorageError, match="503") as raised:
        uploads_at(failing_bucket).abort("x")
    assert raised.value.retriable
    failing_bucket.RequestHandlerClass.status = 404
    assert uploads_at(failing_bucket).abort("x") == 0


@pytest.mark.parametrize(
    ("url", "config", "expected"),
    [
        ("s3://b/p", {"region": "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com/b"),
        ("s3a://b", {"aws_region": "eu-west-1", "virtual_hosted_style_request": "true"}, "https://b.s3.eu-west-1.amazonaws.com"),
        ("s3://b/p", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000/"}, "http://127.0.0.1:9000/b"),
        ("s3://b/p", {"endpoint": "https://b.host", "virtual_hosted_style_request": "true"}, "https://b.host"),
        ("gs://b/p", {}, None),
        ("file:///b", {}, None),
    ],
)  # fmt: skip
def test_place_of_a_bucket(url: str, config: dict[str, str], expected: str | None) -> None:
    found = open_uploads(url, config | {"access_key_id": "a", "secret_access_key": "b"})
    assert (found._place.url if found is not None else None) == expected


def test_no_uploads_are_looked_for_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert open_uploads("s3://b/p", {"region": "x"}) is None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert open_uploads("s3://b/p", {"region": "x"}) is not None


@pytest.mark.parametrize("token", [None, "session/token+="])
def test_signature_equals_that_of_botocore(token: str | None) -> None:
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = "https://s3.eu-west-1.amazonaws.com/b/a%20b/c%2B?uploadId=x%2Fy&uploads="
    now = datetime.now(UTC)
    own = signed_headers(Request(url, method="DELETE"), "eu-west-1", Keys("AK", "secret", token), now)
    theirs = AWSRequest("DELETE", url)
    theirs.context["timestamp"] = now.strftime("%Y%m%dT%H%M%SZ")
    theirs.headers["X-Amz-Content-SHA256"] = own["x-amz-content-sha256"]
    theirs.headers["X-Amz-Date"] = own["x-amz-date"]
    auth = S3SigV4Auth(Credentials("AK", "secret", token), "s3", "eu-west-1")
    if token is not None:
        theirs.headers["X-Amz-Security-Token"] = token
    text = auth.string_to_sign(theirs, auth.canonical_request(theirs))
    assert own["authorization"].endswith(f"Signature={auth.signature(text, theirs)}")
