"""Subscriptions to client metrics: which clients push which metrics, and how often (KIP-714).

They are configs of CLIENT_METRICS resources, set by `kafka-client-metrics.sh`.
"""

from __future__ import annotations

import http.client
import logging
import math
import re
import ssl
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ...metadata.configs import InvalidConfig, validate_client_metrics_configs
from ...metadata.image import CLIENT_METRICS_RESOURCE
from ...protocol.checksum import crc32c
from ...protocol.errors import ErrorCode
from ...protocol.records.compression import Compression, decompress
from ...protocol.records.errors import CorruptBatch
from ...protocol.uuids import uuid_to_text
from ..runtime.thread_pools import ThreadPool

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

    from ...metadata.image import ConfigResource, MetadataImage
    from ..config.broker_config import BrokerConfig
    from ..network.call import Call
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines


log = logging.getLogger("odradek.telemetry")

ALL_METRICS = "*"
DEFAULT_INTERVAL_MS = 300_000

Matches = Callable[[str], object]


class Client(NamedTuple):
    """The labels of a client, by the names that subscriptions use. None where it sends nothing."""

    client_instance_id: str
    client_id: str | None
    client_software_name: str | None
    client_software_version: str | None
    client_source_address: str
    client_source_port: str


def client_of(call: Call, instance_id: bytes) -> Client:
    """Returns the client behind a request, as subscriptions match it."""
    name, version = call.connection.software or (None, None)
    return Client(
        client_instance_id=uuid_to_text(instance_id),
        client_id=call.client_id,
        client_software_name=name,
        client_software_version=version,
        client_source_address=call.client_host.removeprefix("/"),
        client_source_port=call.connection.remote_address.rpartition(":")[2],
    )


class Subscription(NamedTuple):
    """`patterns`: by attribute of the client, a function that returns true for the whole value."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Matches]

    def matches(self, client: Client) -> bool:
        """Returns True if every pattern matches. A pattern for what a client does not tell matches nothing."""
        return all(
            (value := getattr(client, attribute)) is not None and matches(value)
            for attribute, matches in self.patterns.items()
        )


class Wanted(NamedTuple):
    """The metrics of all subscriptions that match a client: prefixes of names, `*` for all, nothing for none."""

    metrics: tuple[str, ...]
    interval_ms: int


def subscriptions(image: MetadataImage) -> list[Subscription]:
    """Returns the subscriptions of an image. One that cannot be used is logged and left out."""
    found = []
    for (kind, name), configs in image.configs.items():
        if kind == CLIENT_METRICS_RESOURCE:
            try:
                found.append(_subscription(name, configs))
            except (InvalidConfig, ValueError) as error:
                log.warning("the client metrics subscription %r is ignored: %s", name, error)
    return found


def wanted(of: Iterable[Subscription], client: Client) -> Wanted:
    """Returns what a client is to push: of the intervals that match the shortest, the default at most."""
    metrics: dict[str, None] = {}
    interval_ms = DEFAULT_INTERVAL_MS
    for one in of:
        if one.matches(client):
            metrics.update(dict.fromkeys(one.metrics))
            interval_ms = min(interval_ms, one.interval_ms)
    return Wanted((ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics)), interval_ms)


def _subscription(name: str, configs: Mapping[str, str]) -> Subscription:
    """Raises InvalidConfig, and ValueError for a pattern that is not regular in RE2's sense."""
    values = validate_client_metrics_configs(name, configs)
    interval_ms = values.get("interval.ms", DEFAULT_INTERVAL_MS)
    metrics, patterns = values.get("metrics", ()), values.get("match", ())
    assert isinstance(interval_ms, int)
    assert isinstance(metrics, tuple)
    assert isinstance(patterns, tuple)
    return Subscription(metrics, interval_ms, dict(map(_pattern, patterns)))


def _pattern(text: str) -> tuple[str, Matches]:
    # RE2 takes linear time: a client chooses the value that is matched.
    import re2

    attribute, _, pattern = text.partition("=")
    try:
        return attribute.strip(), re2.compile(pattern.rstrip("=").strip()).fullmatch
    except re2.error as error:
        raise ValueError(f"{text}: {error}") from None


# Client instances: what each of them is subscribed to, and when it may ask and push next (KIP-714).
#
# The states and errors are those of Kafka's ClientMetricsManager:
#
# - An instance is known from its first request until its connection ends, or it is silent for three intervals.
# - It may ask again one interval after its last request, or at once when subscriptions have changed.
# - It may push right after it asked, and then once in an interval. A terminating push may come at any time, and is
#   the last.
# - A push with another subscription id is UNKNOWN_SUBSCRIPTION_ID: the client asks again.


#: Instances that are known at a time, as in Kafka; the one that was silent for longest is forgotten for a new one.
MOST_INSTANCES = 16_384
#: An instance is forgotten after this time, or three intervals.
SHORTEST_EXPIRY_MS = 60_000
#: Instances that are looked at with each request for whether they are silent.
_SWEPT = 4


class Instance:
    """A client instance."""

    __slots__ = ("asked_ms", "client", "connection", "is_terminating", "pushed_ms", "seen_ms", "subscription_id",
                 "version", "wanted")  # fmt: skip

    def __init__(self, client: Client, instance_id: bytes, asked: Wanted, version: int, connection: object) -> None:
        self.client = client
        self.wanted = asked
        #: The version of the subscriptions that it was matched with.
        self.version = version
        self.subscription_id = subscription_id(instance_id, asked)
        self.connection = connection
        self.asked_ms = self.pushed_ms = self.seen_ms = 0
        self.is_terminating = False

    def may_ask(self, now_ms: int) -> bool:
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.wanted.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        if self.asked_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.wanted.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True

    @property
    def expiry_ms(self) -> int:
        return max(SHORTEST_EXPIRY_MS, 3 * self.wanted.interval_ms)


class Push(NamedTuple):
    """A push that is checked: what its size, compression and id say."""

    subscription_id: int
    is_terminating: bool
    compression_type: int
    size: int


class Instances:
    """The client instances of a broker. `max_bytes`: telemetry.max.bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._subscriptions: list[Subscription] = []
        self._version = 0
        #: By id, the one that was seen last at the end.
        self._instances: dict[bytes, Instance] = {}
        self._by_connection: dict[object, bytes] = {}
        self.throttled = self.unknown_subscriptions = 0

    def __len__(self) -> int:
        return len(self._instances)

    def set_subscriptions(self, subscriptions: list[Subscription]) -> None:
        """Takes over other subscriptions. Each instance is matched anew with its next request."""
        self._subscriptions = subscriptions
        self._version += 1

    def ask(
        self, instance_id: bytes, describe: Callable[[], Client], connection: object, now_ms: int
    ) -> Instance | ErrorCode:
        """Returns the instance with what it is to push, or the error of the request."""
        instance = self._find(instance_id, describe, connection, now_ms)
        if not instance.may_ask(now_ms):
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return instance

    def push(
        self, instance_id: bytes, describe: Callable[[], Client], connection: object, push: Push, now_ms: int
    ) -> Instance | ErrorCode:
        """Returns the instance whose push is taken, or the error of the request."""
        instance = self._find(instance_id, describe, connection, now_ms)
        error = self._error(instance, push, now_ms)
        instance.is_terminating = push.is_terminating
        return error or instance

    def disconnected(self, connection: object) -> None:
        """Forgets the instance of a connection."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _error(self, instance: Instance, push: Push, now_ms: int) -> ErrorCode | None:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(now_ms) and not push.is_terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription_id:
            self.unknown_subscriptions += 1
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type not in Compression.__members__.values():
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if push.size > self._max_bytes else None

    def _find(self, instance_id: bytes, describe: Callable[[], Client], connection: object, now_ms: int) -> Instance:
        instance = self._instances.pop(instance_id, None)
        if instance is None or instance.version < self._version:
            client = describe() if instance is None else instance.client
            asked = wanted(self._subscriptions, client)
            instance = Instance(client, instance_id, asked, self._version, connection)
            self._by_connection[connection] = instance_id
        self._instances[instance_id] = instance
        instance.seen_ms = now_ms
        self._sweep(now_ms)
        return instance

    def _sweep(self, now_ms: int) -> None:
        """Forgets instances that are silent, and the one that is for longest where there are too many."""
        for instance_id in [one for one, _ in zip(self._instances, range(_SWEPT), strict=False)]:
            instance = self._instances[instance_id]
            if len(self._instances) > MOST_INSTANCES or now_ms - instance.seen_ms >= instance.expiry_ms:
                del self._instances[instance_id]
                self._by_connection.pop(instance.connection, None)


def subscription_id(instance_id: bytes, asked: Wanted) -> int:
    """Returns a number that changes with what an instance is subscribed to."""
    text = f"[{', '.join(asked.metrics)}]{asked.interval_ms}"
    high, low = struct.unpack(">QQ", instance_id)
    hashed = (high ^ low) >> 32 ^ (high ^ low) & 0xFFFFFFFF
    number: int = crc32c(text.encode()) ^ hashed
    return number - (1 << 32) if number >= 1 << 31 else number


# Pushed metrics: OTLP's MetricsData, read by the library `opentelemetry-proto`, which is imported with the first
# push.
#
# Everything here may run on a thread: it touches nothing but its arguments.


#: The largest push when it is decompressed. Kafka's clients push some 50 KB; the library reads this in 10 ms.
MOST_PUSHED_BYTES = 2 << 20
#: Points of one push that are read. Clients have a few hundred metrics, with a point for each broker and partition.
MOST_POINTS = 5_000
#: Labels of one point, and characters of a label's name or value; what is longer is cut.
MOST_LABELS, MOST_LABEL_CHARACTERS = 16, 200


class UnreadablePush(Exception):
    """A push that is no MetricsData in the compression that it names."""


class Sample(NamedTuple):
    """A point of a metric. `is_counter`: it only grows. `is_delta`: the value is what came since the last push."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_counter: bool
    is_delta: bool
    description: str


class Pushed(NamedTuple):
    """A push: its samples, how many points were left out, and the message as the library has it."""

    samples: list[Sample]
    skipped: int
    message: MetricsData


def read_push(data: bytes, compression_type: int) -> Pushed:
    """Reads a push. Raises UnreadablePush, and ImportError without the library."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    message = MetricsData()
    try:
        plain = decompress(Compression(compression_type), data, MOST_PUSHED_BYTES)
        if len(plain) > MOST_PUSHED_BYTES:
            raise UnreadablePush(f"more than {MOST_PUSHED_BYTES} bytes")
        message.ParseFromString(bytes(plain))
    except (CorruptBatch, DecodeError) as error:
        raise UnreadablePush(str(error)[:MOST_LABEL_CHARACTERS]) from None
    samples: list[Sample] = []
    skipped = 0
    for sample in _samples(message):
        if sample is None or len(samples) >= MOST_POINTS:
            skipped += 1
        else:
            samples.append(sample)
    return Pushed(samples, skipped, message)


def export_request(pushed: Pushed, client: Client, principal: str) -> bytes:
    """Returns a push as a request to an OTLP collector, with what is known of the client among the resource's attributes."""
    reported = {**client._asdict(), "principal": principal}
    for resource_metrics in pushed.message.resource_metrics:
        for name, value in reported.items():
            if value is not None:
                attribute = resource_metrics.resource.attributes.add()
                attribute.key, attribute.value.string_value = name, value
    # ExportMetricsServiceRequest has the same fields as MetricsData.
    exported: bytes = pushed.message.SerializeToString()
    return exported


def _samples(message: MetricsData) -> Iterator[Sample | None]:
    """Yields the points of gauges and sums; None for each of another kind, which Kafka's clients do not push."""
    for resource_metrics in message.resource_metrics:
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                yield from _points(metric)


def _points(metric: Metric) -> Iterator[Sample | None]:
    kind = metric.WhichOneof("data")
    if kind not in ("gauge", "sum"):
        yield None
        return
    data = getattr(metric, kind)
    is_counter = kind == "sum" and data.is_monotonic
    is_delta = kind == "sum" and data.aggregation_temporality == 1
    for point in data.data_points:
        value = point.as_double if point.WhichOneof("value") == "as_double" else float(point.as_int)
        if math.isnan(value):
            yield None
            continue
        yield Sample(
            metric.name[:MOST_LABEL_CHARACTERS],
            tuple(
                (one.key[:MOST_LABEL_CHARACTERS], _text(one.value))
                for one, _ in zip(point.attributes, range(MOST_LABELS), strict=False)
            ),
            value,
            is_counter,
            is_delta,
            metric.description[:MOST_LABEL_CHARACTERS],
        )


def _text(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    return str(getattr(value, kind))[:MOST_LABEL_CHARACTERS] if kind else ""


# The newest values that clients have pushed, as they are shown to Prometheus: bounded in clients, names and series.
#
# A metric `org.apache.kafka.producer.node.request.latency.avg` is shown as
# `kafka_client_producer_node_request_latency_avg`. Sums that grow are counters: what clients push as differences is
# added up.


#: Clients whose metrics are shown; further ones are counted and left out.
MOST_CLIENTS = 1_000
#: Series of one client, of all clients (500 bytes each), and names of metrics.
MOST_SERIES_OF_CLIENT, MOST_SERIES, MOST_NAMES = 2_000, 100_000, 2_000
#: The labels that tell clients apart.
CLIENT_LABELS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
)

_PREFIX = "kafka_client_"
_OWN = re.compile(r"^org\.apache\.kafka\.")
_ODD = re.compile(r"[^a-zA-Z0-9_]")

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """The series of one name. All are of one kind: the first client's."""

    name: str
    is_counter: bool
    description: str


class _Shown:
    """The series of one client, until `expires_ms`."""

    __slots__ = ("expires_ms", "labels", "values")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.values: dict[tuple[str, Labels], float] = {}
        self.expires_ms = 0


class ClientSeries:
    """The series of all clients."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._clients: dict[str, _Shown] = {}
        self.series = 0
        #: Points that were not shown because a limit was reached or their kind was not that of the name.
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._clients)

    def take(self, client: Client, samples: Iterable[Sample], expires_ms: int, now_ms: int) -> None:
        """Shows samples of a client until `expires_ms`, unless newer ones come."""
        self.expire(now_ms)
        shown = self._clients.get(client.client_instance_id)
        if shown is None:
            if len(self._clients) >= MOST_CLIENTS:
                self.left_out += sum(1 for _ in samples)
                return
            labels = tuple((name, getattr(client, name) or "") for name in CLIENT_LABELS)
            shown = self._clients[client.client_instance_id] = _Shown(labels)
        shown.expires_ms = expires_ms
        for sample in samples:
            self._add(shown, sample)

    def expire(self, now_ms: int) -> None:
        """Drops the series of clients that have not pushed in time."""
        for instance_id in [one for one, shown in self._clients.items() if shown.expires_ms <= now_ms]:
            self.series -= len(self._clients.pop(instance_id).values)
        if not self._clients:
            self._families.clear()

    def collect(self, now_ms: int) -> Iterator[tuple[Family, list[tuple[Labels, float]]]]:
        """Yields each name with the labels and values of its series."""
        self.expire(now_ms)
        found: dict[str, list[tuple[Labels, float]]] = {}
        for shown in self._clients.values():
            for (name, labels), value in shown.values.items():
                found.setdefault(name, []).append((shown.labels + labels, value))
        for name, series in sorted(found.items()):
            yield self._families[name], series

    def _add(self, shown: _Shown, sample: Sample) -> None:
        name = shown_name(sample.name, is_counter=sample.is_counter)
        family = self._families.get(name)
        if family is None and len(self._families) < MOST_NAMES:
            family = self._families[name] = Family(name, sample.is_counter, sample.description)
        key = (name, _labels(sample.labels))
        is_new = key not in shown.values
        has_room = self.series < MOST_SERIES and len(shown.values) < MOST_SERIES_OF_CLIENT
        if family is None or family.is_counter != sample.is_counter or (is_new and not has_room):
            self.left_out += 1
            return
        self.series += is_new
        before = shown.values.get(key, 0.0) if sample.is_delta else 0.0
        shown.values[key] = before + sample.value


def shown_name(name: str, *, is_counter: bool) -> str:
    """Returns the name of a metric as Prometheus takes it; of a counter without `_total`, which is added to all."""
    plain = _PREFIX + _ODD.sub("_", _OWN.sub("", name))
    return plain.removesuffix("_total") if is_counter else plain


def _labels(labels: Labels) -> Labels:
    """Returns the labels of a point; one that has the name of a client's label is marked."""
    named = {}
    for name, value in labels:
        plain = _ODD.sub("_", name).lstrip("_0123456789") or "label"
        named[f"point_{plain}" if plain in CLIENT_LABELS else plain] = value
    return tuple(sorted(named.items()))


# Forwards what clients push to an OTLP collector over HTTP, from a thread of its own, with a bounded queue.


#: Pushes that wait for the collector, 2 MB each at most; further ones are dropped and counted.
MOST_QUEUED = 32
#: For the connection, and for each wait of the response.
TIMEOUT_S = 10.0
_PATH = "/v1/metrics"
_MOST_RESPONSE_BYTES = 64 * 1024


class Collector:
    """The collector at a URL. Raises InvalidConfig."""

    def __init__(self, url: str, lines: RepeatedLines) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfig(f"odradek.telemetry.otlp.endpoint is not an http or https URL: {parts.scheme}://…")
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path if parts.path not in ("", "/") else _PATH
        self._lines = lines
        self._pool = ThreadPool("telemetry", 1)
        self._waiting = 0
        self.sent = self.dropped = self.failed = 0

    def forward(self, body: bytes) -> None:
        """Sends a request, later. Failures are logged and counted."""
        if self._waiting >= MOST_QUEUED:
            self.dropped += 1
            return
        self._waiting += 1
        self._pool.run_then(partial(self._post, body), self._done)

    async def stop(self) -> None:
        await self._pool.stop()

    def _post(self, body: bytes) -> int:
        connection: http.client.HTTPConnection
        if self._is_tls:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT_S, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/x-protobuf"})
            response = connection.getresponse()
            response.read(_MOST_RESPONSE_BYTES)
            return response.status
        finally:
            connection.close()

    def _done(self, outcome: int | BaseException) -> None:
        self._waiting -= 1
        if isinstance(outcome, int) and 200 <= outcome < 300:
            self.sent += 1
            return
        self.failed += 1
        words = f"answered {outcome}" if isinstance(outcome, int) else f"cannot be reached: {outcome!r}"
        self._lines.log(log, logging.WARNING, "", "otlp", f"the collector at {self._host} {words}")


# Client telemetry of a broker: takes pushes, shows them to Prometheus, and forwards them to a collector (KIP-714).


#: Pushes that are read at a time, 2 MB each at most; further ones are THROTTLING_QUOTA_EXCEEDED.
MOST_READING = 16

#: Called once with the error code of the response.
Done = Callable[[int], None]


class ClientTelemetry:
    """The metrics that clients push to this broker. `collector`: None where nothing is forwarded. `pool` reads pushes."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, lines: RepeatedLines, pool: ThreadPool, collector: Collector | None
    ) -> None:
        self.max_bytes: int = config.get("telemetry.max.bytes")
        self.instances = Instances(self.max_bytes)
        self.series = ClientSeries()
        self.collector = collector
        self.pushes = self.unreadable = 0
        self._clock = clock
        self._lines = lines
        self._pool = pool
        self._reading = 0

    def follow(self, changed: Iterable[ConfigResource], image: MetadataImage) -> None:
        """Takes over the subscriptions of an image. `changed`: the resources whose configs are new in it."""
        if any(kind == CLIENT_METRICS_RESOURCE for kind, _ in changed):
            self.instances.set_subscriptions(subscriptions(image))

    def push(
        self, instance_id: bytes, describe: Callable[[], Client], connection: object, principal: str, push: Push,
        metrics: bytes, done: Done,
    ) -> None:  # fmt: skip
        """Takes a push. Calls `done` when it is read and shown, now or later."""
        taken = self.instances.push(instance_id, describe, connection, push, self._clock.now_ms())
        if isinstance(taken, ErrorCode):
            done(taken)
        elif not metrics:
            done(ErrorCode.NONE)
        elif self._reading >= MOST_READING:
            done(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            self._reading += 1
            reading = partial(self._read, bytes(metrics), push.compression_type, taken.client, principal)
            self._pool.run_then(reading, partial(self._was_read, taken, done))

    def disconnected(self, connection: object) -> None:
        self.instances.disconnected(connection)

    async def stop(self) -> None:
        if self.collector is not None:
            await self.collector.stop()

    def _read(self, metrics: bytes, compression_type: int, client: Client, principal: str) -> tuple[Pushed, bytes]:
        """Runs on a thread."""
        pushed = read_push(metrics, compression_type)
        return pushed, b"" if self.collector is None else export_request(pushed, client, principal)

    def _was_read(self, instance: Instance, done: Done, outcome: tuple[Pushed, bytes] | BaseException) -> None:
        self._reading -= 1
        if isinstance(outcome, BaseException):
            self.unreadable += 1
            words = "cannot be read" if isinstance(outcome, UnreadablePush) else "failed"
            client = instance.client
            text = f"a push of metrics of {client.client_source_address} {words}: {outcome!r}"
            self._lines.log(log, logging.WARNING, client.client_source_address, "push", text)
            done(ErrorCode.INVALID_RECORD)
            return
        pushed, exported = outcome
        self.pushes += 1
        now_ms = self._clock.now_ms()
        self.series.take(instance.client, pushed.samples, now_ms + instance.expiry_ms, now_ms)
        self.series.left_out += pushed.skipped
        if self.collector is not None:
            self.collector.forward(exported)
        done(ErrorCode.NONE)
