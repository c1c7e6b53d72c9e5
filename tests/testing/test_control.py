"""The control port over plain HTTP, as a client in any language uses it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from kafka import KafkaProducer

pytestmark = pytest.mark.usefixtures("sockets")


class Http:
    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as rejected:
            return rejected.code, json.load(rejected)


@pytest.fixture
def http(broker: odradek.Broker, tmp_path: Path) -> Iterator[Http]:
    port = broker.serve_control(snapshots=tmp_path)
    yield Http(port.url)
    port.close()


def test_faults_over_http_strike_and_count(broker: odradek.Broker, http: Http) -> None:
    status, made = http(
        "POST", "/v1/faults", {"kind": "fail", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}
    )
    assert (status, made["id"], made["count"]) == (200, 1, 0)
    assert http("POST", "/v1/faults", {"kind": "drop", "api": ["Produce"], "after": True, "nth": 1})[0] == 200
    assert http("POST", "/v1/faults", {"kind": "delay", "seconds": 0.01, "version": [0, 99]})[0] == 200
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10)
    assert producer.send("orders", b"1").get(timeout=60).offset == 0
    producer.close()
    faults = http("GET", "/v1/faults")[1]["faults"]
    assert [fault["count"] for fault in faults[:2]] == [2, 1] and faults[2]["count"] > 0
    assert http("GET", "/v1/faults/1")[1]["struck"][0].startswith("Produce v")
    assert http("DELETE", "/v1/faults/3", {})[0] == 200
    assert http("DELETE", "/v1/faults", {})[0] == 200 and len(broker.faults) == 0


def test_records_groups_time_and_requests_over_http(broker: odradek.Broker, http: Http) -> None:
    assert http("POST", "/v1/topics/orders", {"partitions": 2, "config": {"retention.ms": "60000"}})[0] == 200
    value = base64.b64encode(b"order 1").decode()
    assert http("POST", "/v1/topics/orders/records", {"values": [value, None], "partition": 1}) == (
        200,
        {"base_offset": 0},
    )
    seen = http("GET", "/v1/topics/orders/records?wait_for=2")[1]["records"]
    assert [(one["partition"], one["value"]) for one in seen] == [(1, value), (1, None)]
    assert http("GET", "/v1/groups/billing")[1] == {
        "state": None,
        "members": [],
        "lag": None,
        "lags": [],
        "uncommitted": 0,
    }
    assert http("POST", "/v1/clock/advance", {"minutes": 2})[1]["now_ms"] == pytest.approx(
        broker.clock.now_ms, abs=5000
    )
    assert http("GET", "/v1/topics/orders/records")[1] == {"records": []}
    assert http("GET", "/v1/requests")[1] == {"requests": []}, "the test kit's own requests are not shown"
    assert http("POST", "/v1/reset", {})[0] == 200 and not broker.topic("orders").exists


def test_a_snapshot_over_http(broker: odradek.Broker, http: Http, tmp_path: Path) -> None:
    broker.topic("orders").send(b"1")
    assert http("POST", "/v1/save", {"path": str(tmp_path / "saved")})[0] == 200
    broker.reset()
    assert http("POST", "/v1/restore", {"path": "saved"})[0] == 200
    assert broker.topic("orders").values() == [b"1"]
    (tmp_path / "other").mkdir()
    status, reported = http("POST", "/v1/restore", {"path": str(tmp_path / "other")})
    assert status == 400 and "is not a snapshot" in reported["error"]


@pytest.mark.parametrize("path", [".", "..", "../elsewhere", "/etc/odradek", "a/../../elsewhere", "link/saved"])
@pytest.mark.parametrize("operation", ["save", "restore"])
def test_snapshots_stay_below_the_folder_that_the_user_named(
    http: Http, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, path: str, operation: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    status, reported = http("POST", f"/v1/{operation}", {"path": path})
    assert status == 409 and "is not below the folder for snapshots" in reported["error"]


def test_without_a_folder_there_are_no_snapshots(broker: odradek.Broker, tmp_path: Path) -> None:
    port = broker.serve_control()
    status, reported = Http(port.url)("POST", "/v1/save", {"path": str(tmp_path / "saved")})
    port.close()
    assert status == 409 and "--snapshots FOLDER" in reported["error"]
    assert not (tmp_path / "saved").exists()


def test_faults_of_disks_over_http(broker: odradek.Broker, http: Http) -> None:
    assert http("POST", "/v1/topics/orders", {})[0] == 200
    slow = {"kind": "slow_disk", "seconds": 0.01, "topic": "ord*", "partition": 0, "times": 1}
    assert http("POST", "/v1/faults", slow)[1]["fault"].endswith("take 0.01 s longer, once")
    values = {"values": [base64.b64encode(b"order 1").decode()]}
    assert http("POST", "/v1/topics/orders/records", values) == (200, {"base_offset": 0})
    assert http("GET", "/v1/faults/1")[1]["struck"] == ["append to orders-0"]
    assert http("POST", "/v1/faults", {"kind": "disk_full", "topic": "orders", "node_id": 1})[1]["id"] == 2
    assert http("POST", "/v1/topics/orders/records", values)[0] == 409
    assert http("GET", "/v1/faults/2")[1]["count"] == 1
    assert http("DELETE", "/v1/faults/2", {})[0] == 200
    assert http("POST", "/v1/brokers/1/restart", {})[0] == 200
    assert http("POST", "/v1/topics/orders/records", values) == (200, {"base_offset": 1})
    assert broker.topic("orders").values() == [b"order 1", b"order 1"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/v1/faults", {"kind": "fail", "api": "Produse", "error": "NONE"}, 400, "did you mean 'Produce'"),
        ("POST", "/v1/faults", {"kind": "explode"}, 400, "unknown kind of fault 'explode'"),
        ("POST", "/v1/faults", {"kind": "delay", "seconds": "1"}, 400, "seconds is of type"),
        ("POST", "/v1/faults", {"kind": "drop", "colour": 1}, 400, "colour"),
        ("POST", "/v1/faults", {"kind": "drop", "times": "1"}, 400, "times must be an integer"),
        ("POST", "/v1/faults", {"kind": "disk_full", "client_id": "checkout"}, 400, "client_id"),
        ("POST", "/v1/faults", {"kind": "disk_full", "seconds": 1}, 400, "seconds"),
        ("POST", "/v1/faults", {"kind": "slow_disk"}, 400, "slow_disk needs seconds"),
        ("PUT", "/v1/faults", {}, 404, "openapi.json"),
        ("POST", "/v1/faults", [], 400, "a JSON object"),
        ("GET", "/v1/faults/7", None, 404, "there is no fault 7"),
        ("GET", "/v1/nothing", None, 404, "openapi.json"),
        ("GET", "/v1/topics/orders/records?wait_for=1&timeout=0.05", None, 408, "the topic has 0"),
        ("POST", "/v1/clock/advance", {"weeks": 1}, 400, "weeks"),
        ("POST", "/v1/brokers/9/kill", {}, 404, "broker 9 does not run"),
        ("POST", "/v1/topics/..", {}, 409, "INVALID_TOPIC_EXCEPTION"),
    ],
)  # fmt: skip
def test_wrong_request_gets_an_error_with_a_reason(
    http: Http, method: str, path: str, body: Any, status: int, words: str
) -> None:
    code, reported = http(method, path, body)
    assert code == status and words in reported["error"], reported


def test_pages_of_a_browser_are_kept_out(http: Http) -> None:
    assert http("POST", "/v1/reset", {}, Host="evil.example")[0] == 403
    assert http("POST", "/v1/reset", {}, **{"Content-Type": "text/plain"})[0] == 415


def test_the_description_lists_every_operation(http: Http) -> None:
    status, reported = http("GET", "/openapi.json")
    assert status == 200 and reported["openapi"].startswith("3.1")
    assert reported["paths"]["/v1/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"][
        "properties"
    ]["kind"]
    identities = [one["operationId"] for path in reported["paths"].values() for one in path.values()]
    assert len(identities) == len(set(identities)) >= 16


@pytest.mark.usefixtures("processes")
def test_a_process_serves_until_its_input_ends() -> None:
    command = [sys.executable, "-m", "odradek.testing", "--brokers", "3", "--override", "num.partitions=2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        reported = json.loads(process.stdout.readline())
        http = Http(reported["control"])
        assert http("GET", "/v1/brokers")[1] == {
            "bootstrap_servers": reported["bootstrap_servers"],
            "broker_ids": [1, 2, 3],
        }
        assert http("POST", "/v1/brokers/2/kill", {})[0] == 200
        assert http("GET", "/v1/brokers")[1]["broker_ids"] == [1, 3]
        assert http("POST", "/v1/brokers/2/restart", {})[0] == 200
        process.stdin.close()
        assert process.wait(60) == 0
