"""Client telemetry (KIP-714) over the wire: subscriptions, pushes, their errors, and the receivers of pushed metrics."""

from __future__ import annotations

import http.server
import queue
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.protocol.apis import APIS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.push_telemetry import PushTelemetryRequest
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.uuids import ZERO_UUID, uuid_to_text
from odradek.server.telemetry import client_series, instances, otlp
from odradek.server.telemetry.client_series import ClientSeries
from odradek.server.telemetry.instances import Instances, Push
from odradek.server.telemetry.otlp import Sample, UnreadablePush, read_push
from odradek.server.telemetry.subscriptions import (
    ClientLabels,
    Subscription,
    Wanted,
    wanted,
)

pytest.importorskip("opentelemetry.proto.metrics.v1")
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from compat_tests.wire import WireClient
from tests.server.harness.data_path import wait_until

CLIENT_METRICS = 16
INTERVAL_MS = 60_000
NOW_MS = 1_700_000_000_000
LATENCY = "org.apache.kafka.producer.node.request.latency.avg"
SENT = "org.apache.kafka.producer.record.sent.total"


class Collector:
    """An OTLP collector over HTTP that keeps its requests."""

    def __init__(self) -> None:
        self.got: queue.Queue[tuple[str, str, bytes]] = queue.Queue()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.put((self.path, self.headers["Content-Type"], body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def collector(sockets: None) -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


@pytest.fixture(scope="module")
def broker(sockets: None, collector: Collector) -> Iterator[odradek.Broker]:
    config = {"odradek.metrics.port": 0, "odradek.telemetry.otlp.endpoint": collector.url, "telemetry.max.bytes": 5000}
    with odradek.Broker(config=config) as running:
        with WireClient(running.bootstrap_servers) as client:
            subscribe(
                client, "all", **{"interval.ms": str(INTERVAL_MS), "metrics": "*", "match": "client_id=pushing-.*"}
            )
        yield running


@pytest.fixture
def client(sockets: None, broker: odradek.Broker, request: pytest.FixtureRequest) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers, client_id=f"pushing-{request.node.name[:60]}") as found:
        found.call(ApiVersionsRequest(client_software_name="tester", client_software_version="1.2"), 3)
        yield found


def subscribe(client: WireClient, name: str, **configs: str | None) -> None:
    changes = [AlterableConfig(key, 0 if value else 1, value) for key, value in configs.items()]
    request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(CLIENT_METRICS, name, changes)])
    (response,) = client.call(request, 1).responses
    assert response.error_code == 0, response


def asked(client: WireClient, instance_id: bytes = ZERO_UUID) -> Any:
    return client.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def pushed(client: WireClient, reported: Any, metrics: bytes, **fields: Any) -> int:
    request = PushTelemetryRequest(
        client_instance_id=reported.client_instance_id, subscription_id=reported.subscription_id, metrics=metrics
    )
    for name, value in fields.items():
        setattr(request, name, value)
    code: int = client.call(request, 0).error_code
    return code


def metrics_data(latency: float = 2.5, sent: int = 7, **labels: str) -> MetricsData:
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    gauge = scope.metrics.add(name=LATENCY, description="latency").gauge.data_points.add(as_double=latency)
    for key, value in labels.items():
        attribute = gauge.attributes.add(key=key)
        attribute.value.string_value = value
    total = scope.metrics.add(name=SENT).sum
    total.is_monotonic, total.aggregation_temporality = True, 1
    total.data_points.add(as_int=sent)
    return data


def otlp_bytes(**reported: Any) -> bytes:
    found: bytes = metrics_data(**reported).SerializeToString()
    return found


def scraped(broker: odradek.Broker) -> str:
    server = broker.server.observability
    assert server is not None
    with urllib.request.urlopen("http://{}:{}/metrics".format(*server.address), timeout=60) as response:
        text: str = response.read().decode()
    return text


def lines_of(broker: odradek.Broker, instance_id: bytes) -> dict[str, float]:
    """Returns the values of a client's series, by the name of the metric."""
    label = f'client_instance_id="{uuid_to_text(instance_id)}"'
    found = (line.rpartition(" ") for line in scraped(broker).splitlines() if label in line)
    return {name.partition("{")[0]: float(value) for name, _, value in found}


def test_client_gets_its_subscription_and_an_id(client: WireClient) -> None:
    reported = asked(client)
    assert reported.error_code == 0
    assert reported.client_instance_id != ZERO_UUID
    assert (reported.requested_metrics, reported.push_interval_ms, reported.telemetry_max_bytes) == (
        ["*"],
        INTERVAL_MS,
        5000,
    )
    assert (reported.accepted_compression_types, reported.delta_temporality) == ([4, 3, 1, 2], True)
    again = asked(client, reported.client_instance_id)
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_clients_without_a_subscription_push_nothing(broker: odradek.Broker) -> None:
    with WireClient(broker.bootstrap_servers, client_id="other") as client:
        reported = asked(client)
    assert (reported.requested_metrics, reported.push_interval_ms) == ([], 300_000)


@pytest.mark.parametrize("compression", Compression)
def test_pushed_metrics_are_shown_with_the_clients_labels(
    broker: odradek.Broker, client: WireClient, compression: Compression
) -> None:
    reported = asked(client)
    body = bytes(compress(compression, otlp_bytes(latency=2.5, sent=7, node_id="3", client_id="spoofed")))
    assert pushed(client, reported, body, compression_type=int(compression)) == 0
    name = "kafka_client_producer_node_request_latency_avg"
    (line,) = [one for one in scraped(broker).splitlines() if one.startswith(name) and client.client_id in one]
    assert line.endswith(" 2.5")
    for label in ('client_software_name="tester"', 'client_software_version="1.2"', 'node_id="3"',
                  'client_source_address="127.0.0.1"', 'point_client_id="spoofed"'):  # fmt: skip
        assert label in line
    assert lines_of(broker, reported.client_instance_id)["kafka_client_producer_record_sent_total"] == 7


def test_differences_add_up_to_a_counter(broker: odradek.Broker, client: WireClient) -> None:
    reported = asked(client)
    assert pushed(client, reported, otlp_bytes(sent=7)) == 0
    assert pushed(client, reported, otlp_bytes(sent=5), terminating=True) == 0
    assert lines_of(broker, reported.client_instance_id)["kafka_client_producer_record_sent_total"] == 12


def test_pushes_are_forwarded_to_the_collector_with_the_client(
    broker: odradek.Broker, client: WireClient, collector: Collector
) -> None:
    reported = asked(client)
    assert pushed(client, reported, otlp_bytes(latency=1.25)) == 0
    reported_of: dict[str, str] = {}
    while (
        reported_of.get("client_id") != client.client_id
    ):  # the pushes of earlier tests are forwarded before, and late
        path, content_type, body = collector.got.get(timeout=60)
        assert (path, content_type) == ("/v1/metrics", "application/x-protobuf")
        (resource_metrics,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
        reported_of = {one.key: one.value.string_value for one in resource_metrics.resource.attributes}
    assert reported_of["client_instance_id"] == uuid_to_text(reported.client_instance_id)
    assert reported_of["principal"] == "User:ANONYMOUS"
    assert resource_metrics.scope_metrics[0].metrics[0].gauge.data_points[0].as_double == 1.25


def test_pushes_that_cannot_be_taken_say_why(client: WireClient) -> None:
    reported = asked(client)
    wrong = {"subscription_id": reported.subscription_id + 1}
    assert pushed(client, reported, otlp_bytes(), **wrong, terminating=False) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert pushed(client, reported, otlp_bytes()) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pushed(client, reported, otlp_bytes(), client_instance_id=ZERO_UUID) == ErrorCode.INVALID_REQUEST
    assert pushed(client, reported, otlp_bytes(), client_instance_id=bytes(15) + b"\x01") == ErrorCode.INVALID_REQUEST
    assert pushed(client, reported, otlp_bytes(), terminating=True) == 0
    assert pushed(client, reported, otlp_bytes(), terminating=True) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("metrics", "compression", "error"),
    [
        (b"x" * 5001, 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"x" * 500, 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"x" * 500, -1, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"\xff" * 500, 0, ErrorCode.INVALID_RECORD),
        (b"x" * 500, 4, ErrorCode.INVALID_RECORD),
        (bytes(compress(Compression.ZSTD, bytes(otlp.MOST_PUSHED_BYTES + 1))), 4, ErrorCode.INVALID_RECORD),
        (b"", 0, ErrorCode.NONE),
    ],
    ids=["too large", "codec 5", "codec -1", "no OTLP", "no zstd", "a bomb", "nothing"],
)
def test_bytes_that_cannot_be_taken_say_why(
    broker: odradek.Broker, metrics: bytes, compression: int, error: ErrorCode
) -> None:
    with WireClient(broker.bootstrap_servers, client_id="pushing-bytes") as client:
        assert pushed(client, asked(client), metrics, compression_type=compression) == error


def test_changed_subscriptions_reach_a_client_at_once(broker: odradek.Broker, client: WireClient) -> None:
    reported = asked(client)
    subscribe(client, "more", **{"interval.ms": "200", "metrics": "org.apache.kafka.consumer.", "match": None})
    again = asked(client, reported.client_instance_id)
    assert (again.error_code, again.push_interval_ms) == (0, 200)
    assert again.subscription_id != reported.subscription_id
    subscribe(client, "more", **{"interval.ms": None, "metrics": None})
    back = asked(client, reported.client_instance_id)
    assert back.subscription_id == reported.subscription_id


def test_telemetry_is_advertised_only_where_something_receives_it(broker: odradek.Broker, client: WireClient) -> None:
    keys = {key for key, api in APIS.items() if "elemetry" in api.name}
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    assert keys <= {one.api_key for one in client.call(request, 3).api_keys}
    with odradek.Broker() as plain, WireClient(plain.bootstrap_servers) as other:
        assert not keys & {one.api_key for one in other.call(request, 3).api_keys}


# ---- the parts alone


def a_client(number: int = 0) -> ClientLabels:
    return ClientLabels(f"id-{number}", "app", "java", "4.0", "127.0.0.1", "1")


def test_instances_are_bounded_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "MOST_INSTANCES", 50)
    found = Instances(1000)
    for number in range(500):
        found.ask(number.to_bytes(16, "big"), lambda n=number: a_client(n), number, NOW_MS)
        assert len(found) <= 50
    for number in range(1000, 1020):
        found.ask(number.to_bytes(16, "big"), a_client, number, NOW_MS + 3 * 300_000)
    assert len(found) == 20
    found.disconnected(1000)
    assert len(found) == 19


def test_a_push_may_follow_a_request_at_once_and_then_waits_for_the_interval() -> None:
    found = Instances(1000)
    instance = found.ask(b"i" * 16, a_client, "c", NOW_MS)
    assert not isinstance(instance, ErrorCode)
    push = Push(instance.subscription_id, False, 0, 10)

    def at(ms: int) -> object:
        return found.push(b"i" * 16, a_client, "c", push, NOW_MS + ms)

    assert at(1) is instance
    assert at(299_999) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert at(300_001) is instance


def test_subscriptions_match_whole_values_of_all_patterns() -> None:
    def subscription(**patterns: str) -> Subscription:
        import re2

        return Subscription(("a.", "b."), 100, {key: re2.compile(value).fullmatch for key, value in patterns.items()})

    client = a_client()
    assert wanted([], client) == Wanted((), 300_000)
    assert wanted([subscription()], client) == Wanted(("a.", "b."), 100)
    assert wanted([subscription(client_id="ap")], client) == Wanted((), 300_000)
    assert wanted([subscription(client_id="a.*", client_software_name="java")], client).interval_ms == 100
    assert wanted([subscription(client_id="a.*", client_software_name="ruby")], client).interval_ms == 300_000
    assert wanted([subscription(client_id=".*")], client._replace(client_id=None)).metrics == ()


def test_series_of_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_series, "MOST_CLIENTS", 3)
    monkeypatch.setattr(client_series, "MOST_SERIES_OF_CLIENT", 10)
    monkeypatch.setattr(client_series, "MOST_SERIES", 25)
    monkeypatch.setattr(client_series, "MOST_NAMES", 8)
    found = ClientSeries()
    for number in range(10):
        points = [Sample(f"m{n % 20}", (("p", str(n)),), 1.0, False, False, "") for n in range(100)]
        found.take(a_client(number), points, NOW_MS + 1000, NOW_MS)
    assert (len(found), found.series) == (3, 25)
    assert found.left_out == 1000 - 25
    assert list(found.collect(NOW_MS + 1000)) == []
    assert (len(found), found.series) == (0, 0)


def test_a_name_keeps_its_kind() -> None:
    found = ClientSeries()
    found.take(a_client(), [Sample("m", (), 1.0, False, False, "")], NOW_MS + 1, NOW_MS)
    found.take(a_client(1), [Sample("m", (), 1.0, True, True, "")], NOW_MS + 1, NOW_MS)
    assert (found.series, found.left_out) == (1, 1)


def test_points_of_one_push_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_POINTS", 1)
    data = metrics_data(key="x" * 10_000)
    read = read_push(data.SerializeToString(), 0)
    assert (len(read.samples), read.skipped) == (1, 1)
    assert len(read.samples[0].labels[0][1]) == otlp.MOST_LABEL_CHARACTERS
    with pytest.raises(UnreadablePush):
        read_push(b"\xff" * 10, 0)


def test_a_collector_that_fails_is_counted(broker: odradek.Broker) -> None:
    with odradek.Broker(config={"odradek.telemetry.otlp.endpoint": "http://127.0.0.1:1"}) as running:
        with WireClient(running.bootstrap_servers) as client:
            subscribe(client, "all", metrics="*")
            assert pushed(client, asked(client), otlp_bytes()) == 0
        telemetry = running.server.telemetry.clients
        assert telemetry is not None and telemetry.collector is not None
        collector = telemetry.collector
        wait_until(lambda: collector.failed == 1, "the failure is counted")


def test_an_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(odradek.InvalidConfig, match=r"odradek\.telemetry\.otlp\.endpoint"):
        odradek.Broker(config={"odradek.telemetry.otlp.endpoint": "ftp://user:secret@x"}).start()
