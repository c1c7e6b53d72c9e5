"""A member of a share group, with one method for each request."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from odradek.protocol.messages.acknowledgement_batches import AcknowledgementBatch
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from odradek.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch

from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
STRICT = 1


class Member:
    """A member that joins and gets its assignment on creation. `places`: topic id and index of each partition that it
    fetches.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        places: Sequence[tuple[bytes, int]],
        coordinator: str | None = None,
    ) -> None:
        """`coordinator`: address of the group coordinator, if it is not the broker with the records."""
        self.client = WireClient(bootstrap)
        self.of_group = self.client if coordinator is None else WireClient(coordinator)
        self.group = group
        self.topic = topic
        self.places = places
        self.id = str(uuid.uuid4())
        self.epoch = self.session_epoch = 0
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        eventually(lambda: not self.of_group.call(find, 6).coordinators[0].error_code, what="the group is coordinated")
        eventually(self._is_assigned, what="the member is assigned")

    def beat(self, epoch: int | None = None) -> Any:
        names = [self.topic] if self.epoch == 0 else None
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=names,
        )
        response = self.of_group.call(request, 1)
        if not response.error_code and response.member_epoch > 0:
            self.epoch = response.member_epoch
        return response

    def _is_assigned(self) -> bool:
        assignment = self.beat().assignment
        return assignment is not None and bool(assignment.topic_partitions)

    def fetch(
        self,
        acks: Sequence[tuple[int, int, int]] = (),
        *,
        max_records: int = 500,
        epoch: int | None = None,
        mode: int = 0,
        wait_ms: int = 500,
        version: int = 2,
    ) -> Any:
        """Returns a ShareFetch response. `acks`: first offset, last offset and type, for the first partition."""
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=mode,
            topics=[
                ShareFetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        ShareFetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                AcknowledgementBatch(first, last, [kind]) for first, last, kind in acks
                            ]
                            if (topic_id, index) == self.places[0]
                            else [],
                        )
                    ],
                )
                for topic_id, index in self.places
            ],
        )
        response = self.client.call(request, version)
        if not response.error_code:
            self.session_epoch += 1
        return response

    def take(self, **settings: Any) -> list[tuple[int, int, int]]:
        """Returns the records acquired by the next fetch: first and last offset, and the delivery count. The fetch waits
        long enough for a busy broker that loads the share partition first.
        """
        response = self.fetch(**{"wait_ms": 10_000, **settings})
        assert response.error_code == 0, response
        parts = [part for topic in response.responses for part in topic.partitions]
        assert not any(part.error_code or part.acknowledge_error_code for part in parts), parts
        for part in parts:
            self._check_records(part)
        return [(a.first_offset, a.last_offset, a.delivery_count) for part in parts for a in part.acquired_records]

    def _check_records(self, part: Any) -> None:
        """Asserts that the response has records of every acquired range."""
        buffer = bytes(part.records or b"")
        sent = {r.offset for at, header in iter_headers(buffer) for r in decode_batch(buffer, at, header)}
        for acquired in part.acquired_records:
            assert set(range(acquired.first_offset, acquired.last_offset + 1)) & sent, (acquired, sent)

    def acknowledge(self, *acks: tuple[int, int, int], epoch: int | None = None, renews: bool = False) -> Any:
        """Returns the response for the first partition, or the whole response if it is an error."""
        response = self.client.call(self._acknowledgement(acks, epoch, renews), 2)
        if response.error_code:
            return response
        self.session_epoch += 1
        return response.responses[0].partitions[0]

    def send_acknowledgement(self, *acks: tuple[int, int, int]) -> None:
        """Sends the acknowledgement without waiting for a response."""
        self.client.send(self._acknowledgement(acks, None, False), 2)

    def _acknowledgement(
        self, acks: Sequence[tuple[int, int, int]], epoch: int | None, renews: bool
    ) -> ShareAcknowledgeRequest:
        topic_id, index = self.places[0]
        batches = [AcknowledgementBatch(first, last, [kind]) for first, last, kind in acks]
        partition = AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        return ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
        )

    def close(self) -> None:
        self.client.close()
        self.of_group.close()
