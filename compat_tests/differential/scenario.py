"""Scenarios: requests in order, as data, to be sent alike to two brokers.

A request is an API's name and a dict of fields, as in protocol/messages; fields that a version does not carry are left
out of it, so that one scenario serves all versions. In any string value:

- `$name` is a name unique to this run of the scenario: of a topic, a group and so on.
- `@name` is a value of an earlier response that a step kept, such as an id.

`ask` sends a request and awaits its response; `send` and `receive` are its two halves. `on` names the connection. The
versions under test are those of the scenario's own API; other requests have the highest version that both brokers have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.protocol.codec import encode
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from odradek.protocol.records import batch as batch_format
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, encode_batch

Fields = Mapping[str, Any]
#: The version of the consumer protocol's messages: the first with the owned partitions.
EMBEDDED_VERSION = 1


@dataclass(frozen=True)
class Step:
    kind: str  # "ask", "send", "receive", "bytes"
    api: str = ""
    fields: Fields = field(default_factory=dict)
    version: int | None = None
    on: str = "main"
    #: Kept name -> path in the response, such as "topics.0.topic_id".
    keep: Mapping[str, str] = field(default_factory=dict)
    #: The request is repeated until the response satisfies it; the last response counts.
    until: Callable[[Any], bool] | None = None
    #: False for a step that only prepares: brokers may answer it differently.
    compared: bool = True
    frame: bytes = b""


@dataclass(frozen=True)
class Scenario:
    """A named sequence of steps. `versions` narrows the versions of `api` ("3+"); the default is all."""

    api: str
    name: str
    steps: tuple[Step, ...]
    versions: str = "0+"


def scenario(api: str, name: str, *steps: Step | list[Step], versions: str = "0+") -> Scenario:
    flat: list[Step] = []
    for step in steps:
        flat += step if isinstance(step, list) else [step]
    return Scenario(api, name, tuple(flat), versions)


def ask(
    api: str,
    *,
    on: str = "main",
    version: int | None = None,
    keep: Mapping[str, str] | None = None,
    until: Callable[[Any], bool] | None = None,
    **fields: Any,
) -> Step:
    return Step("ask", api, fields, version, on, keep or {}, until)


def prepare(
    api: str,
    *,
    on: str = "main",
    version: int | None = None,
    keep: Mapping[str, str] | None = None,
    until: Callable[[Any], bool] | None = None,
    **fields: Any,
) -> Step:
    """A request whose response is not compared."""
    return Step("ask", api, fields, version, on, keep or {}, until, compared=False)


def send(api: str, *, on: str, version: int | None = None, **fields: Any) -> Step:
    return Step("send", api, fields, version, on)


def receive(*, on: str, keep: Mapping[str, str] | None = None, compared: bool = True) -> Step:
    """Receives the response to the oldest request of `send` on that connection."""
    return Step("receive", on=on, keep=keep or {}, compared=compared)


def send_bytes(frame: bytes, *, on: str = "main") -> Step:
    """Sends raw bytes; the result is the frame that comes back, or the end of the connection."""
    return Step("bytes", on=on, frame=frame)


@dataclass(frozen=True)
class BatchOf:
    """A record batch, built when it is sent. `producer_id` may be "@kept".

    `age_ms`: the time from its first record to the start of the run.
    """

    values: tuple[bytes | None, ...]
    keys: tuple[bytes | None, ...] | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    age_ms: int = 60_000
    step_ms: int = 1
    compression: Compression = Compression.NONE
    producer_id: int | str = batch_format.NO_PRODUCER_ID
    producer_epoch: int | str = batch_format.NO_PRODUCER_EPOCH
    base_sequence: int = batch_format.NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    #: Wrong fields of the header, under a right CRC.
    header: Mapping[str, Any] = field(default_factory=dict)
    #: An overwrite of the finished bytes: (position, new bytes).
    damage: tuple[int, bytes] | None = None

    def build(self, started_ms: int, resolve: Callable[[Any], Any]) -> bytes:
        first = started_ms - self.age_ms
        keys = self.keys or (None,) * len(self.values)
        records = [
            Record(n, first + n * self.step_ms, key, value, list(self.headers))
            for n, (key, value) in enumerate(zip(keys, self.values, strict=True))
        ]
        made = bytearray(
            encode_batch(
                records,
                compression=self.compression,
                producer_id=resolve(self.producer_id),
                producer_epoch=resolve(self.producer_epoch),
                base_sequence=self.base_sequence,
                transactional=self.transactional,
                control=self.control,
            )
        )
        if self.header:
            wrong = batch_format.read_header(made, 0)._replace(**self.header)
            batch_format.write_header(made, 0, wrong)
            batch_format.seal(made, 0, len(made))
        if self.damage:
            at, new = self.damage
            made[at : at + len(new)] = new
        return bytes(made)


def batch(*values: bytes | None, **more: Any) -> BatchOf:
    return BatchOf(values, **more)


@dataclass(frozen=True)
class Joined:
    """Several batches, one after the other."""

    batches: tuple[BatchOf, ...]

    def build(self, started_ms: int, resolve: Callable[[Any], Any]) -> bytes:
        return b"".join(one.build(started_ms, resolve) for one in self.batches)


@dataclass(frozen=True)
class Subscribed:
    """The metadata of a classic consumer inside JoinGroup: a topic, and the partitions of it that it owns."""

    name: str = "$t"
    owned: tuple[int, ...] = ()

    def build(self, started_ms: int, resolve: Callable[[Any], Any]) -> bytes:
        name = resolve(self.name)
        owned = [ConsumerProtocolSubscriptionTopicPartition(topic=name, partitions=list(self.owned))]
        said = ConsumerProtocolSubscription(topics=[name], owned_partitions=owned if self.owned else [])
        return EMBEDDED_VERSION.to_bytes(2, "big") + encode(said, EMBEDDED_VERSION)


@dataclass(frozen=True)
class Given:
    """The assignment of a member by the leader of a classic group, inside SyncGroup."""

    partitions: tuple[int, ...]
    name: str = "$t"

    def build(self, started_ms: int, resolve: Callable[[Any], Any]) -> bytes:
        part = ConsumerProtocolAssignmentTopicPartition(topic=resolve(self.name), partitions=list(self.partitions))
        return EMBEDDED_VERSION.to_bytes(2, "big") + encode(
            ConsumerProtocolAssignment(assigned_partitions=[part]), EMBEDDED_VERSION
        )
