"""Transcripts of a transaction shard: its input, and the exact records, replies and markers that result.

The format is that of `transcript.py`. Requested markers are shown as `markers ...`; the command `written` confirms
them. `kept` adds a record of a former coordinator to the log; `taken` supplies a producer id.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from odradek.coordinator.transaction import TransactionStatus, by_topic
from odradek.coordinator.transaction_records import decode_record, encode_record, transaction_record
from odradek.coordinator.transaction_requests import (
    MarkersWritten,
    NeedProducerId,
    ProducerIdTaken,
    SendMarkers,
    TransactionRequest,
    TransactionsConfig,
)
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.metadata.image import TopicPartition
from odradek.protocol.internal.transaction_state import TransactionLogValue
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.schema import Message

from tests.coordinator.transcript import Options, Script, shown, shown_record

FIRST_PRODUCER_ID = 1000


def init(o: Options) -> Message:
    return InitProducerIdRequest(
        transactional_id=o.get("id", "a"),
        transaction_timeout_ms=int(o.get("timeout", 60_000)),
        producer_id=int(o.get("pid", -1)),
        producer_epoch=int(o.get("epoch", -1)),
    )


def places(text: str) -> list[TopicPartition]:
    return [(topic, int(index)) for topic, _, index in (item.partition(":") for item in text.split(",") if item)]


def topics(o: Options) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name, [index]) for name, index in places(o.get("places", "t:0"))]


def add(o: Options) -> Message:
    """Adds partitions. v=3 is the client's form; v=4 and v=5 are a broker's, with `verify` or without."""
    pid, epoch = int(o.get("pid", FIRST_PRODUCER_ID)), int(o.get("epoch", 0))
    if int(o.get("v", 3)) < 4:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=o.get("id", "a"),
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics(o),
        )
    return AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction(o.get("id", "a"), pid, epoch, "verify" in o, topics(o))]
    )


def end(o: Options) -> Message:
    return EndTxnRequest(
        transactional_id=o.get("id", "a"),
        producer_id=int(o.get("pid", FIRST_PRODUCER_ID)),
        producer_epoch=int(o.get("epoch", 0)),
        committed="abort" not in o,
    )


def describe(o: Options) -> Message:
    return DescribeTransactionsRequest(transactional_ids=o.get("ids", "a").split(","))


def list_transactions(o: Options) -> Message:
    return ListTransactionsRequest(
        state_filters=[name for name in o.get("states", "").split(",") if name],
        producer_id_filters=[int(pid) for pid in o.get("pids", "").split(",") if pid],
        duration_filter=int(o.get("duration", -1)),
        transactional_id_pattern=o.get("pattern"),
    )


REQUESTS: dict[str, tuple[Callable[[Options], Message], int]] = {
    "init": (init, 5),
    "add": (add, 3),
    "end": (end, 4),
    "describe": (describe, 0),
    "list": (list_transactions, 2),
}


class TransactionTranscript(Script):
    """A shard and its log, driven line by line. Every record that it writes goes through bytes into the log."""

    def __init__(self) -> None:
        self.now = 1_000
        self.config = TransactionsConfig()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.tokens = 0
        self.next_producer_id = FIRST_PRODUCER_ID
        self.sent: list[SendMarkers] = []
        self.shard = self._loaded()

    def command(self, line: str) -> list[str]:
        word, *rest = shlex.split(line)
        options = dict(item.partition("=")[::2] for item in rest)
        if word == "config":
            self.config = TransactionsConfig(**{key: int(value) for key, value in options.items()})
            self.shard = self._loaded()
        elif word == "reload":
            self.sent.clear()
            self.shard = self._loaded()
        elif word == "pass":
            return self._pass(int(rest[0]))
        elif word == "kept":
            self._keep(options)
        elif word == "taken":
            self.shard.handle(ProducerIdTaken(options.get("id", "a"), self._new_producer_id()), self.now)
        elif word == "written":
            self._written(options)
        else:
            self._ask(word, options)
        return self._taken()

    def _ask(self, word: str, options: Options) -> None:
        make, version = REQUESTS[word]
        self.tokens += 1
        request = make(options)
        message = TransactionRequest(f"#{self.tokens}", request, int(options.get("v", version)))
        if self.shard.needs_producer_id(request, message.version):
            message.new_producer_id = self._new_producer_id()
        self.shard.handle(message, self.now)

    def _new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def _keep(self, o: Options) -> None:
        """Adds a transaction that has just begun to the log."""
        value = TransactionLogValue(
            producer_id=int(o.get("pid", 7)),
            previous_producer_id=int(o.get("pid", 7)),
            producer_epoch=int(o.get("epoch", 0)),
            transaction_timeout_ms=int(o.get("timeout", 60_000)),
            transaction_status=TransactionStatus.ONGOING,
            transaction_partitions=by_topic(set(places(o.get("places", "t:0")))),
            transaction_last_update_timestamp_ms=self.now,
            transaction_start_timestamp_ms=self.now,
            client_transaction_version=2,
        )
        self.log.append(encode_record(transaction_record(o.get("id", "a"), value, 2)))
        self.shard = self._loaded()

    def _written(self, options: Options) -> None:
        """Confirms all markers that were sent last, or those for `places`."""
        markers = self.sent[-1]
        some = frozenset(places(options["places"])) if "places" in options else frozenset(markers.partitions)
        self.shard.handle(
            MarkersWritten(markers.transactional_id, markers.producer_id, markers.producer_epoch, some), self.now
        )

    def _pass(self, ms: int) -> list[str]:
        """Advances the time, and shows each moment with output."""
        until, out = self.now + ms, []
        while (deadline := self.shard.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.shard.expire(self.now)
            taken = self._taken()
            out += [f"  at {self.now}:", *taken] if taken else []
        self.now = until
        return out

    def _taken(self) -> list[str]:
        output = self.shard.take()
        lines = []
        for record in output.records:
            self.log.append(encode_record(record))
            key, value = self.log[-1]
            assert decode_record(key, value)[:2] == record[:2], "a decoded record equals the encoded one"
            lines.append(f"  record {shown_record(record)}")
        for reply in output.replies:
            if isinstance(reply, SendMarkers):
                self.sent.append(reply)
                what = "commit" if reply.committed else "abort"
                where = ",".join(f"{topic}:{index}" for topic, index in reply.partitions)
                lines.append(
                    f"  markers {what} {reply.producer_id}@{reply.producer_epoch} TV{reply.transaction_version} [{where}]"
                )
            elif isinstance(reply, NeedProducerId):
                lines.append(f"  needs a producer id for {reply.transactional_id}")
            else:
                lines.append(f"  {reply.token}: {shown(reply.response)}")
        return lines

    def _loaded(self) -> TransactionShard:
        shard = TransactionShard(self.config)
        for key, value in self.log:
            shard.replay(decode_record(key, value))
        shard.loaded(self.now)
        return shard
