"""Multipart uploads of brokers that were killed: the next attempt and the deletion of their segment abort them."""

from __future__ import annotations

import http.server
import logging
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request

import pytest
import trustme
from odradek.tiers.leader_tasks import CopyPlan
from odradek.tiers.named_store import make_store
from odradek.tiers.object_names import object_name
from odradek.tiers.open_uploads import Keys, OpenUploads, open_uploads, signed_headers
from odradek.tiers.segment_metadata import COPY_SEGMENT_FINISHED
from odradek.tiers.store import InvalidStore, PartType, RemoteStorageError, RemoteStore

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


def test_uploads_of_many_segments_are_found_by_one_listing_of_their_partition(
    config: dict[str, str], plans: list[CopyPlan], client: Any, failing_bucket: Any
) -> None:
    store: Any = make_store("objects", config)
    prefix = config["url"].removeprefix("s3://tiers/")
    names = [f"{prefix}/{object_name(plan.segment, PartType.LOG)}" for plan in plans]
    ids = [client.create_multipart_upload(Bucket="tiers", Key=name)["UploadId"] for name in names]
    partition = plans[0].segment.partition
    assert {one.name for one in store.open_uploads(partition)} == set(names)
    assert store.open_uploads(partition._replace(partition=10)) == []
    store.delete_log_segments([plan.segment for plan in plans[1:]])
    assert open_names(client) == names[:1]
    store.delete_log_segment_data(plans[0].segment)
    assert open_names(client) == [] and len(set(ids)) == len(names)
    store._uploads = uploads_at(failing_bucket)
    store.delete_log_segments([plan.segment for plan in plans])
    assert len(failing_bucket.asked) == 1


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
    location = ""
    content = b""
    #: Bytes that are sent instead of HTTP.
    garbage = b""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.garbage:
            self.wfile.write(self.garbage)
            return
        self.send_response(self.status)
        if self.location:
            self.send_header("Location", self.location)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def bucket(tls: ssl.SSLContext | None = None, **fields: object) -> Iterator[Any]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (FailingBucket,), fields))
    server.asked = []
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def failing_bucket(sockets: None) -> Iterator[Any]:
    with bucket() as server:
        yield server


def address_of(server: Any) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def uploads_of(endpoint: str, **client: str) -> OpenUploads:
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "r"}
    uploads = open_uploads("s3://tiers", keys | {"endpoint": endpoint} | client)
    assert uploads is not None
    return uploads


def uploads_at(server: Any) -> OpenUploads:
    return uploads_of(address_of(server))


def test_bucket_that_does_not_allow_it_is_named_once_and_not_asked_again(
    failing_bucket: Any, caplog: pytest.LogCaptureFixture
) -> None:
    uploads = uploads_at(failing_bucket)
    with caplog.at_level(logging.WARNING):
        assert uploads.abort("x") == uploads.abort("y") == 0
    (line,) = caplog.messages
    assert "lifecycle rule" in line and "403" in line and len(failing_bucket.asked) == 1


def test_server_that_fails_is_a_retriable_error(failing_bucket: Any) -> None:
    failing_bucket.RequestHandlerClass.status = 503
    with pytest.raises(RemoteStorageError, match="503") as raised:
        uploads_at(failing_bucket).abort("x")
    assert raised.value.retriable
    failing_bucket.RequestHandlerClass.status = 404
    assert uploads_at(failing_bucket).abort("x") == 0


@pytest.mark.parametrize(
    "fields",
    [{"status": 400}, {"garbage": b"no HTTP\r\n"}, {"garbage": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<a"}],
    ids=["400", "no HTTP", "cut short"],
)
def test_answer_that_may_pass_is_a_retriable_error_each_time(sockets: None, fields: dict[str, object]) -> None:
    with bucket(**fields) as server:
        uploads = uploads_at(server)
        for _ in range(2):
            with pytest.raises(RemoteStorageError) as raised:
                uploads.abort("x")
            assert raised.value.retriable
        assert len(server.asked) == 2


def test_endpoint_that_is_no_url_is_an_error_of_the_store() -> None:
    with pytest.raises(RemoteStorageError, match="unknown url type"):
        uploads_of("localhost:9000").abort("x")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_signed_request_follows_no_redirection(failing_bucket: Any, sockets: None, status: int) -> None:
    with bucket(status=status, location=f"{address_of(failing_bucket)}/tiers") as server:
        with pytest.raises(RemoteStorageError, match=str(status)):
            uploads_at(server).abort("x")
        assert len(server.asked) == 1 and failing_bucket.asked == []


EMPTY = b"<ListMultipartUploadsResult/>"


@pytest.mark.parametrize(
    ("excludes", "is_direct"),
    [
        ("", False), ("other.host, 10.0.0.0/8", False), ("x,127.0.0.1", True), ("127.0.0.0/8", True), ("*", True),
    ],
)  # fmt: skip
def test_proxy_of_the_client_is_used_unless_it_excludes_the_host(sockets: None, excludes: str, is_direct: bool) -> None:
    with bucket(status=200, content=EMPTY) as server, bucket(status=200, content=EMPTY) as proxy:
        settings = {"proxy_url": address_of(proxy), "proxy_excludes": excludes}
        assert uploads_of(address_of(server), **settings).abort("x") == 0
        assert (len(server.asked), len(proxy.asked)) == (int(is_direct), int(not is_direct))


@pytest.mark.parametrize(
    ("entry", "is_excluded"), [("host.org", True), (".host.org", True), ("s3.host.org", True), ("ost.org", False)]
)
def test_proxy_excludes_a_domain_and_those_below_it(sockets: None, entry: str, is_excluded: bool) -> None:
    with bucket(status=200, content=EMPTY) as proxy:
        uploads = uploads_of("http://s3.host.org", proxy_url=address_of(proxy), proxy_excludes=entry)
        (handler,) = [one for one in uploads._opener._handlers if isinstance(one, ProxyHandler)]
        assert (not vars(handler)["proxies"]) == is_excluded


def test_certificates_of_the_client_are_trusted(sockets: None) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with bucket(context, status=200, content=EMPTY) as server:
        endpoint = address_of(server).replace("http:", "https:")
        pem = authority.cert_pem.bytes().decode()
        assert uploads_of(endpoint, root_certificate=pem).abort("x") == 0
        assert uploads_of(endpoint, allow_invalid_certificates="true").abort("x") == 0
        with pytest.raises(RemoteStorageError, match="CERTIFICATE_VERIFY_FAILED"):
            uploads_of(endpoint).abort("x")
    with pytest.raises(InvalidStore, match="root_certificate"):
        uploads_of(endpoint, root_certificate="no certificate")


@pytest.mark.slow
def test_copy_and_deletion_do_not_depend_on_the_search_for_uploads(
    config: dict[str, str], plans: list[CopyPlan], failing_bucket: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing_bucket.RequestHandlerClass.status = 500
    log = tmp_path / "whole.log"
    log.write_bytes(os.urandom(LARGE_BYTES))
    plan, store = large(plans[0], log), make_store("objects", config)
    store._uploads = uploads_at(failing_bucket)  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING):
        store.copy_log_segment_data(plan.segment, plan.parts)
        delete(store, plan)
    assert len(failing_bucket.asked) == 2 and len(caplog.messages) == 1
    with pytest.raises(RemoteStorageError):
        store.open_uploads()  # type: ignore[attr-defined]


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
