"""A delayed EndTxn that reaches the next transaction: a known anomaly of Apache Kafka under transaction version 1.

    python -m compat_tests.histories delayed-end [--target apache]

The client sends EndTxn, gets no response, sends it again and goes on; the network delivers the first one during the next
transaction. Under version 1 both transactions have the same producer epoch, so the coordinator ends the second one:

- a late commit commits records of a transaction that then aborts (G1a);
- a late abort removes the first records of a transaction that then commits (lost-write).

Under version 2 (KIP-890) each transaction has its own epoch, and the coordinator rejects the late request.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message

from compat_tests.asking import coordinator_of
from compat_tests.broker_process import BrokerProcess
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.recipes import eventually, make_topic
from compat_tests.wire import WireClient

from .client import Key, Refused
from .coordinator_client import TRANSACTION
from .drain import drain
from .operation import FAIL, OK, TXN, Content, Operation, read
from .recorder import Recorder, now_ns
from .verdict import Verdict, judge

TARGETS: dict[str, type[BrokerProcess]] = {"odradek": OdradekProcess, "apache": ApacheKafka}
_SAFE_DOWNGRADE = 2
_ALL = -1
#: Errors of a coordinator that loads its state or ends the transaction before.
_NOT_YET = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
_TIMEOUT_MS = 10_000
_SETTLE_S = 60.0


class _Producer(AbstractContextManager["_Producer"]):
    """A transactional producer of single requests, of transaction version 1 or 2."""

    def __init__(self, bootstrap: str, name: str, topic: str, version: int) -> None:
        self._wire = WireClient(bootstrap)
        self._name, self._topic, self._version = name, topic, version
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        begun = self._retried(request, 4, lambda response: response.error_code)
        self._id, self._epoch, self._sequence = begun.producer_id, begun.producer_epoch, 0

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def add_partition(self) -> None:
        """Adds the partition to the transaction; under version 2 its Produce does that."""
        if self._version == 1:
            self._retried(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self._name,
                    v3_and_below_producer_id=self._id,
                    v3_and_below_producer_epoch=self._epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[0])],
                ),
                3,
                lambda response: response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            )

    def send(self, value: str) -> int:
        record = Record(timestamp=int(time.time() * 1000), key=None, value=value.encode(), headers=[])
        batch = encode_batch(
            [record],
            base_offset=0,
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id=self._name, acks=_ALL, timeout_ms=_TIMEOUT_MS, topic_data=[data])
        versions = {1: 11, 2: 12}
        response = self._retried(
            request, versions[self._version], lambda response: response.responses[0].partition_responses[0].error_code
        )
        return int(response.responses[0].partition_responses[0].base_offset)

    def end(self, *, commits: bool) -> EndTxnRequest:
        """Ends the transaction, and returns the request, as the network may still have it."""
        request = EndTxnRequest(
            transactional_id=self._name, producer_id=self._id, producer_epoch=self._epoch, committed=commits
        )
        response = self._retried(request, self._end_version, lambda response: response.error_code)
        if self._version == 2:
            self._id, self._epoch, self._sequence = response.producer_id, response.producer_epoch, 0
        return request

    @property
    def _end_version(self) -> int:
        return {1: 4, 2: 5}[self._version]

    def deliver(self, late: EndTxnRequest) -> int:
        """Delivers a request that was delayed, and returns the broker's error code."""
        while True:
            code = int(self._wire.call(late, self._end_version).error_code)
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                return code

    def _retried(self, request: Message, version: int, error_of: Any) -> Any:
        """Sends a request until the coordinator has ended the transaction before."""
        found: list[Any] = []

        def is_done() -> bool:
            found.append(self._wire.call(request, version))
            return error_of(found[-1]) not in _NOT_YET

        eventually(is_done, what="the coordinator is ready")
        _check(error_of(found[-1]))
        return found[-1]


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise Refused(ErrorCode(code).name)


def execute(target: str, version: int, *, late_commit: bool, directory: Path) -> Verdict:
    """Runs the scenario on a new broker, and judges the history. `late_commit`: the delayed request is a commit."""
    directory.mkdir(parents=True, exist_ok=True)
    path, topic = directory / "history.jsonl", "delayed"
    with TARGETS[target](directory / "broker", SINGLE_NODE) as broker, Recorder(path) as recorder:
        _set_version(broker.bootstrap, version)
        make_topic(broker.bootstrap, topic)
        eventually(lambda: coordinator_of(broker.bootstrap, topic, TRANSACTION), what="there is a coordinator")
        with _Producer(broker.bootstrap, topic, topic, version) as producer:
            _run(producer, recorder, str(Key(topic, 0)), late_commit=late_commit)
        drain(broker.bootstrap, [Key(topic, 0)], recorder, _SETTLE_S)
    return judge(read(path))


def _run(producer: _Producer, recorder: Recorder, key: str, *, late_commit: bool) -> None:
    process = recorder.next_process()

    def add(invoked: int, micro: Content, outcome: str, error: str = "") -> None:
        recorder.add(Operation(process, TXN, outcome, invoked, now_ns(), micro, "raw", error=error))

    invoked, first = now_ns(), recorder.next_value()
    producer.add_partition()
    offset = producer.send(first)
    late = producer.end(commits=late_commit)
    add(invoked, [["send", key, [offset, first]]], OK if late_commit else FAIL)

    micro: list[Content] = []
    invoked, outcome, error = now_ns(), OK, ""
    try:
        for at in range(2):
            value = recorder.next_value()
            micro.append(["send", key, [None, value]])
            producer.add_partition()
            micro[-1][2][0] = producer.send(value)
            if at == 0:
                producer.deliver(late)
        producer.end(commits=not late_commit)
    except Refused as refused:
        # The coordinator rejected the commit, or the client requested none.
        error = str(refused)
        outcome = FAIL
    if late_commit:
        outcome = FAIL
    add(invoked, micro, outcome, error)


def _set_version(bootstrap: str, version: int) -> None:
    update = FeatureUpdateKey(
        feature="transaction.version", max_version_level=version, upgrade_type=_SAFE_DOWNGRADE if version < 2 else 1
    )

    def is_set() -> bool:
        with WireClient(bootstrap) as wire:
            response = wire.call(UpdateFeaturesRequest(feature_updates=[update]), 2)
        return bool(response.error_code == ErrorCode.NONE)

    eventually(is_set, what=f"transactions have version {version}")
