"""Pushed metrics: OTLP's MetricsData, read by the library `opentelemetry-proto`, which is imported with the first
push.

Everything here may run on a thread: it touches nothing but its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.compression import Compression, decompress
from ...protocol.records.errors import CorruptBatch
from .subscriptions import ClientLabels

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

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


def export_request(pushed: Pushed, client: ClientLabels, principal: str) -> bytes:
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
