"""A librdkafka producer and two partitions: does a rejected batch to one duplicate a batch of the other?

`refused` has replicas on the calm node and the paused node; `moved` is led by the third node:

1. The paused node leaves the ISR. The leader answers a batch to `refused` with NOT_ENOUGH_REPLICAS while the next batch
   is in flight. The next batch arrives only after the paused node is back. Apache Kafka answers
   OUT_OF_ORDER_SEQUENCE_NUMBER; Odradek repeats the error of the first batch.
2. All followers of `moved` have a batch that is not acknowledged.
3. librdkafka receives both responses of `refused`. After Apache Kafka's it is about to bump its epoch for all partitions.
4. The leader of `moved` is killed, or answers that it is no longer the leader.

`execute_new` is the first step alone, with a producer that has no state on `refused`.

Each frame waits for the events that must precede it (`gate.py`); the producer and the brokers are unmodified.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Message, Producer
from odradek.protocol.errors import ErrorCode

from compat_tests.batches import read_batches
from compat_tests.faults.replicas import log_bytes
from compat_tests.recipes import eventually

from .cluster import PROBE, GatedCluster
from .gate import Answered, Hold

REJECTED, MOVED = "refused", "moved"
#: Fate of the leader of `moved`.
KILLED, LED_BY_ANOTHER = "killed", "led-by-another"
DEADLINE_S = 120
#: Short until the paused node leaves the ISR; where it must stay, long enough for the steps meanwhile.
PROPERTIES = {
    KILLED: {"replica.lag.time.max.ms": "3000", "broker.session.timeout.ms": "3000"},
    LED_BY_ANOTHER: {"replica.lag.time.max.ms": "10000", "broker.session.timeout.ms": "12000"},
}
_POLL_S = 0.01


class Standing(NamedTuple):
    """A batch of `moved` in the log at the end."""

    values: tuple[bytes | None, ...]
    producer_epoch: int
    base_sequence: int
    base_offset: int


class NewOutcome(NamedTuple):
    """The responses to a new producer's two batches, what librdkafka reported as delivered, and the log."""

    rejected: list[Answered]
    delivered: list[bytes]
    standing: list[bytes]

    @property
    def lost(self) -> list[bytes]:
        return sorted(set(self.delivered) - set(self.standing))


class Outcome(NamedTuple):
    """The responses to the batches of each partition, in order, and the log of `moved`."""

    rejected: list[Answered]
    moved: list[Answered]
    standing: list[Standing]

    @property
    def twice(self) -> list[bytes]:
        values = [value for batch in self.standing for value in batch.values if value is not None]
        return sorted({value for value in values if values.count(value) > 1})


class Client:
    """The producer under test, with its errors, deliveries and debug log."""

    def __init__(self, bootstrap: str) -> None:
        self.errors: list[str] = []
        self.delivered: list[bytes] = []
        self._said: list[str] = []
        logger = logging.Logger("librdkafka")
        logger.addFilter(lambda line: bool(self._said.append(line.getMessage())))
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 100,
                "message.timeout.ms": 300_000,
                "socket.timeout.ms": 300_000,
                "reconnect.backoff.max.ms": 500,
                "debug": "eos",
            },
            logger=logger,
        )

    def send(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value, partition=0, on_delivery=self._reported)
        self._producer.poll(0)

    def _reported(self, error: object, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.delivered.append(message.value())

    def flush(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0, "not everything was delivered"

    def await_saying(self, words: str) -> None:
        def said() -> bool:
            self._producer.poll(_POLL_S)
            return any(words in line for line in self._said)

        eventually(said, what=f"librdkafka says {words!r}", deadline_s=DEADLINE_S)


def execute(cluster: GatedCluster, fate: str, *, with_rejection: bool = True) -> Outcome:
    """Runs the scenario. Without `with_rejection` `refused` has no fault, so the producer keeps its epoch."""
    return _Scenario(cluster).run(fate, with_rejection)


def execute_new(cluster: GatedCluster) -> NewOutcome:
    return _Scenario(cluster).run_new()


class _Scenario:
    def __init__(self, cluster: GatedCluster) -> None:
        self.cluster = cluster
        self.calm = cluster.calm
        self.lost, self.paused = (node_id for node_id in cluster.nodes if node_id != self.calm)
        self.gate_of_rejected = cluster.gates[self.calm]
        self.gate_of_moved = cluster.gates[self.lost]

    def run(self, fate: str, with_rejection: bool) -> Outcome:
        self._begin()
        self.client.send(REJECTED, b"refused-0")
        self.client.send(MOVED, b"moved-0")
        self.client.flush()
        release = self._gap() if with_rejection else lambda: None
        {KILLED: self._kill, LED_BY_ANOTHER: self._lead_elsewhere}[fate](release)
        self.client.flush()
        assert not self.client.errors, self.client.errors
        return self._outcome()

    def run_new(self) -> NewOutcome:
        self._begin()
        self._gap()()
        self.client.flush()
        assert not self.client.errors, self.client.errors
        read = read_batches(self.cluster.node(self.calm).bootstrap, REJECTED, 0)
        values = [record.value for _, records in read for record in records]
        standing = [value for value in values if value is not None and value != PROBE]
        return NewOutcome(self._answered(REJECTED), self.client.delivered, standing)

    def _begin(self) -> None:
        cluster = self.cluster
        cluster.create_topic(REJECTED, [[self.calm, self.paused]])
        cluster.create_topic(MOVED, [[self.lost, self.calm, self.paused]])
        cluster.prefer(MOVED, [self.calm, self.lost, self.paused])
        self._in_sync()
        self.client = Client(cluster.client_bootstrap)

    def _in_sync(self) -> None:
        self.cluster.await_in_sync(REJECTED, {self.calm, self.paused})
        self.cluster.await_in_sync(MOVED, {self.calm, self.lost, self.paused})

    def _gap(self) -> Callable[[], None]:
        """Runs the first step until the second batch may arrive. Returns the function that releases it."""
        gate, paused = self.gate_of_rejected, self.cluster.node(self.paused)
        paused.pause()
        self.cluster.await_in_sync(REJECTED, {self.calm})
        self.cluster.await_acceptance(REJECTED, ErrorCode.NOT_ENOUGH_REPLICAS)
        rejection, behind = gate.hold_response(b"refused-1"), gate.hold_request(b"refused-2")
        self.client.send(REJECTED, b"refused-1")
        _await(rejection)
        self.client.send(REJECTED, b"refused-2")
        _await(behind)
        paused.go_on()
        self._in_sync()
        self.cluster.await_acceptance(REJECTED, ErrorCode.NONE)

        def release() -> None:
            rejection.go.set()
            behind.go.set()
            eventually(
                lambda: self._response_to(b"refused-2") is not None, what="it is answered", deadline_s=DEADLINE_S
            )
            if self._response_to(b"refused-2") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.client.await_saying("epoch bump")

        return release

    def _kill(self, release: Callable[[], None]) -> None:
        response = self.gate_of_moved.hold_response(b"moved-1")
        self.client.send(MOVED, b"moved-1")
        _await(response)
        release()
        self.cluster.nodes[self.lost].kill()
        response.lose()

    def _lead_elsewhere(self, release: Callable[[], None]) -> None:
        """Moves the leadership of `moved`. A paused replica in the ISR keeps the leader from acknowledging."""
        paused = self.cluster.node(self.paused)
        paused.pause()
        self.client.send(MOVED, b"moved-1")
        place = self.cluster.node(self.calm).data_dir / f"{MOVED}-0"
        eventually(lambda: b"moved-1" in log_bytes(place), what="the follower has the batch", deadline_s=DEADLINE_S)
        release()
        self.cluster.elect_preferred(MOVED)
        self.cluster.await_leader(MOVED, self.calm)
        paused.go_on()

    def _answered(self, topic: str) -> list[Answered]:
        answered = [response for gate in (self.gate_of_moved, self.gate_of_rejected) for response in gate.answered]
        return [one for one in answered if one.values[0].startswith(topic.encode())]

    def _response_to(self, value: bytes) -> int | None:
        """Returns the first error code for the batch with this value; None before a response."""
        return next((one.error_code for one in self._answered(REJECTED) if value in one.values), None)

    def _outcome(self) -> Outcome:
        self.cluster.await_leader(MOVED, self.calm)
        read = read_batches(self.cluster.node(self.calm).bootstrap, MOVED, 0)
        standing = [
            Standing(
                tuple(record.value for record in records),
                header.producer_epoch,
                header.base_sequence,
                header.base_offset,
            )
            for header, records in read
        ]
        return Outcome(self._answered(REJECTED), self._answered(MOVED), standing)


def _await(hold: Hold) -> None:
    assert hold.came.wait(DEADLINE_S), f"{hold.value!r} did not come to the gate"


def reported_of_new(outcome: NewOutcome) -> str:
    lines = [_respond(REJECTED, response) for response in outcome.rejected]
    lines += [f"delivered: {_named(outcome.delivered)}", f"stands: {_named(outcome.standing)}"]
    return "\n".join([*lines, f"lost: {_named(outcome.lost) or 'nothing'}"])


def _respond(topic: str, response: Answered) -> str:
    values, epoch, sequence, error, offset = response
    return f"{topic}: {_named(values)} epoch {epoch} sequence {sequence} -> {ErrorCode(error).name}, offset {offset}"


def reported(outcome: Outcome) -> str:
    """Returns the outcome as text."""
    lines = []
    for topic, responses in ((REJECTED, outcome.rejected), (MOVED, outcome.moved)):
        lines += [_respond(topic, response) for response in responses]
    for values, epoch, sequence, offset in outcome.standing:
        lines.append(f"stands at {offset}: {_named(values)} epoch {epoch} sequence {sequence}")
    lines.append(f"twice: {_named(outcome.twice) or 'nothing'}")
    return "\n".join(lines)


def _named(values: object) -> str:
    return " ".join(value.decode() for value in values)  # type: ignore[attr-defined]
