"""A member of a share group by single requests: a heartbeat, fetches from the leaders, acknowledgements.

A share session that ends, as its connection does, releases the records that it had; the history gets a fault from its last
response on.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from random import Random
from typing import Any, NamedTuple, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.acknowledgement_batches import AcknowledgementBatch
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from odradek.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch

from compat_tests.asking import ask_any
from compat_tests.histories.client import Key, Refused, Unknown
from compat_tests.histories.coordinator_client import CoordinatorClient
from compat_tests.histories.operation import INFO, OK, SHARE_ACKNOWLEDGE, SHARE_POLL, Content, Operation
from compat_tests.histories.recorder import Recorder, now_ns
from compat_tests.histories.workloads import SHARE_GROUP, SHARED, Setting, Worker
from compat_tests.wire import WireClient

T = TypeVar("T")
_BEAT, _METADATA, _FETCH, _ACKNOWLEDGE = 1, 12, 2, 2
_BEAT_NS = 3_000_000_000
_TIMEOUT_S = 8.0
_MOST_RECORDS, _WAIT_MS = 50, 500
_PAUSE_S = 0.3
_CRASH_SHARE = 0.02
_KINDS = {"accept": 1, "release": 2, "reject": 3}
#: Shares of the kinds; all is accepted when the senders have ended.
_WEIGHTS, _LAST_WEIGHTS = (80, 15, 5), (1, 0, 0)


class Delivery(NamedTuple):
    key: Key
    offset: int
    value: str
    count: int


class _ShareSession:
    """The session with the leader of some partitions."""

    def __init__(self, address: str, group: str, member_id: str, places: dict[int, Key], topic_id: bytes) -> None:
        self._wire = WireClient(address, timeout=_TIMEOUT_S)
        self._group, self._member_id, self._topic_id = group, member_id, topic_id
        self._epoch = 0
        self.places = places
        self.responded_ns = now_ns()

    def fetch(self) -> list[Delivery]:
        """Raises OSError, or Refused for an error of the session or of a partition: then the session is over."""
        named = self.places if self._epoch == 0 else {}
        partitions = [ShareFetchPartition(partition_index=index) for index in named]
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_records=_MOST_RECORDS,
            batch_size=_MOST_RECORDS,
            topics=[ShareFetchTopic(topic_id=self._topic_id, partitions=partitions)] if named else [],
        )
        response = self._call(request, _FETCH)
        parts = [part for topic in response.responses for part in topic.partitions]
        deliveries = [one for part in parts for one in self._deliveries(part)]
        code = next((part.error_code for part in parts if part.error_code), 0)
        if code and not deliveries:
            raise Refused(str(code))
        return deliveries

    def _deliveries(self, part: Any) -> Iterator[Delivery]:
        buffer = bytes(part.records or b"")
        for at, header in iter_headers(buffer):
            for record in decode_batch(buffer, at, header):
                for acquired in part.acquired_records:
                    if acquired.first_offset <= record.offset <= acquired.last_offset:
                        key, value = self.places[part.partition_index], (record.value or b"").decode()
                        yield Delivery(key, record.offset, value, acquired.delivery_count)

    def acknowledge(self, words: Sequence[tuple[Delivery, str]]) -> dict[Key, int]:
        """Returns an error code for each key. Raises as `fetch`."""
        partitions = [
            AcknowledgePartition(
                partition_index=key.partition,
                acknowledgement_batches=[
                    AcknowledgementBatch(one.offset, one.offset, [_KINDS[word]]) for one, word in of_key
                ],
            )
            for key, of_key in groupby(sorted(words), lambda pair: pair[0].key)
        ]
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            topics=[AcknowledgeTopic(topic_id=self._topic_id, partitions=partitions)],
        )
        response = self._call(request, _ACKNOWLEDGE)
        return {
            self.places[part.partition_index]: part.error_code
            for topic in response.responses
            for part in topic.partitions
        }

    def _call(self, request: Any, version: int) -> Any:
        response = self._wire.call(request, version)
        if response.error_code:
            raise Refused(str(response.error_code))
        self.responded_ns = now_ns()
        self._epoch += 1
        return response

    def close(self) -> None:
        self._wire.close()


class ShareMember:
    """A member of the group, which fetches what it is assigned. A method raises `Refused` or `Unknown`."""

    def __init__(self, bootstrap: str, group: str, topic: str, rng: Random, recorder: Recorder) -> None:
        self._bootstrap, self._group, self._topic, self._recorder = bootstrap, group, topic, recorder
        self._id = str(uuid.UUID(bytes=rng.randbytes(16), version=4))
        self._epoch = 0
        self._coordinator = CoordinatorClient(bootstrap, group)
        self._assigned: list[int] = []
        self._topic_id = bytes(16)
        self._sessions: list[_ShareSession] = []

    def heartbeat(self) -> None:
        """Joins if the member is new. A change of the assignment ends the sessions."""
        names = [self._topic] if self._epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=self._id, member_epoch=self._epoch, subscribed_topic_names=names
        )
        response = self._coordinator.call(request, _BEAT)
        self._coordinator.check(response.error_code)
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self.end_sessions()
            places = [one for one in response.assignment.topic_partitions if one.partitions]
            self._assigned = [index for one in places for index in one.partitions]
            self._topic_id = places[0].topic_id if places else bytes(16)

    def poll(self) -> list[tuple[int, list[Delivery]]]:
        """Returns the records that were acquired at each leader, after the time at which the fetch began."""
        if not self._sessions:
            self._connect()
        polled = []
        for session in self._sessions:
            began = now_ns()
            polled.append((began, self._try(session.fetch)))
        return polled

    def acknowledge(self, words: Sequence[tuple[Delivery, str]]) -> dict[Key, int]:
        """Returns the error code of each key whose leader responded."""
        codes: dict[Key, int] = {}
        for session in list(self._sessions):
            its = [pair for pair in words if pair[0].key in session.places.values()]
            if its:
                codes |= self._try(lambda session=session, its=its: session.acknowledge(its))  # type: ignore[misc]
        return codes

    def _try(self, work: Callable[[], T]) -> T:
        """Runs a request. A failure ends all sessions."""
        try:
            return work()
        except (OSError, Refused) as error:
            self.end_sessions()
            raise Unknown(str(error)) from None

    def _connect(self) -> None:
        response = ask_any(self._bootstrap, MetadataRequest([MetadataRequestTopic(name=self._topic)]), _METADATA)
        if response is None or response.topics[0].error_code:
            raise Refused("no metadata")
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers}
        led: dict[int, dict[int, Key]] = defaultdict(dict)
        for part in response.topics[0].partitions:
            if part.partition_index in self._assigned and part.leader_id in addresses:
                led[part.leader_id][part.partition_index] = Key(self._topic, part.partition_index)
        for leader, places in led.items():
            try:
                session = _ShareSession(addresses[leader], self._group, self._id, places, self._topic_id)
            except OSError as error:
                raise Refused(str(error)) from None
            self._sessions.append(session)

    def end_sessions(self) -> None:
        for session in self._sessions:
            session.close()
            self._recorder.fault("a share session ended", session.responded_ns)
        self._sessions = []

    def close(self) -> None:
        self.end_sessions()
        self._coordinator.close()


def simulated_sharer(number: int) -> Worker:
    """A member that accepts, releases and rejects, and accepts all after the senders have stopped."""

    def work(setting: Setting, rng: Random) -> None:
        while not setting.caught_up.is_set():
            member = ShareMember(setting.bootstrap, SHARE_GROUP, SHARED, rng, setting.recorder)
            with suppress(Unknown, Refused):
                _share(member, setting, rng)
            member.close()
            setting.caught_up.wait(_PAUSE_S)

    return Worker(f"share as {number}", work, (SHARE_POLL, SHARE_ACKNOWLEDGE), catches_up=True)


def _share(member: ShareMember, setting: Setting, rng: Random) -> None:
    recorder = setting.recorder
    process = recorder.next_process()
    beats_at = 0
    while not setting.caught_up.wait(rng.random() * _PAUSE_S):
        if now_ns() >= beats_at:
            member.heartbeat()
            beats_at = now_ns() + _BEAT_NS
        words: list[tuple[Delivery, str]] = []
        for began, deliveries in member.poll():
            if deliveries:
                got = [[str(one.key), one.offset, one.value, one.count] for one in deliveries]
                recorder.add(Operation(process, SHARE_POLL, OK, began, now_ns(), got, "raw", group=SHARE_GROUP))
            weights = _LAST_WEIGHTS if setting.stopped.is_set() else _WEIGHTS
            words += [(one, rng.choices(tuple(_KINDS), weights)[0]) for one in deliveries]
        if rng.random() < _CRASH_SHARE and not setting.stopped.is_set():
            return
        if words:
            _acknowledge(member, words, process, recorder)


def _acknowledge(member: ShareMember, words: Sequence[tuple[Delivery, str]], process: int, recorder: Recorder) -> None:
    invoked = now_ns()
    codes: dict[Key, int] = {}
    try:
        codes = member.acknowledge(words)
    finally:
        for key in sorted({one.key for one, _ in words}):
            outcome = OK if codes.get(key) == ErrorCode.NONE else INFO
            value: Content = [[str(key), one.offset, word] for one, word in words if one.key == key]
            recorder.add(
                Operation(
                    process,
                    SHARE_ACKNOWLEDGE,
                    outcome,
                    invoked,
                    now_ns(),
                    value,
                    "raw",
                    group=SHARE_GROUP,
                    error=str(codes.get(key) or ""),
                )
            )
