"""Transient errors: codes of responses after which a client looks leaders or coordinators up, and sends the request again.

Which of them a request waits for depends on what its sender knows. A Fetch names a topic that was described before, so an
unknown topic is a broker with old metadata; a query that a user has typed has the same code for a wrong name. Apache Kafka's
consumer repeats a Fetch for the same codes (`FetchCollector.handleInitializeErrors`).

A broker has lists of its own. They are not the same: of batches that it may take a moment later
(`server/produce/rejected_batches.py`), and of leaders that a follower does not log at once (`server/replicas/fetcher.py`).
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode

#: The partition has no leader, or another one than the metadata says; or its leader is not ready. Each query waits for it.
LEADER_MOVES = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,  # an election has not ended
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # the replica has moved
        ErrorCode.OFFSET_NOT_AVAILABLE,  # a new leader's high watermark is still below its first offset (KIP-207)
    }
)
#: A coordinator loads, or another node becomes it: the request had no effect, and a later one may succeed.
COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # its log is being read
        ErrorCode.COORDINATOR_NOT_AVAILABLE,  # the partition of its log is new, or has no leader
        ErrorCode.NOT_COORDINATOR,  # another broker leads its log
    }
)
#: A Fetch of a partition that was described before.
FETCH_TRANSIENT = LEADER_MOVES | {
    ErrorCode.REPLICA_NOT_AVAILABLE,  # the replica is new on this broker, or moves between directories
    ErrorCode.FENCED_LEADER_EPOCH,  # the broker has newer metadata than the request
    ErrorCode.UNKNOWN_LEADER_EPOCH,  # the broker has older metadata than the request
    ErrorCode.KAFKA_STORAGE_ERROR,  # the leader's directory failed: another replica becomes the leader
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # the broker has no metadata of the partition yet
    ErrorCode.UNKNOWN_TOPIC_ID,  # the same, where the request has ids (KIP-516)
}
