"""The ten messages declared as in construct's own documentation: with its stock classes, without classes of ours.

A compact count is the count plus one, and 0 for null, so a value is a `FocusedSeq` of its count and its content. Both ways
of construct are measured: interpreted, and with its `compile()`.
"""

from __future__ import annotations

from typing import Any

from construct import (
    Array,
    Bytes,
    Flag,
    FocusedSeq,
    GreedyBytes,
    If,
    Int8sb,
    Int16sb,
    Int32sb,
    Int64sb,
    PaddedString,
    Prefixed,
    PrefixedArray,
    Rebuild,
    Struct,
    VarInt,
    this,
)

Tags = PrefixedArray(VarInt, Struct("tag" / VarInt, "data" / Prefixed(VarInt, GreedyBytes)))


class Expression:
    """An expression that construct's `this` cannot express, in a form that `compile()` can put into its source."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._function = eval(f"lambda this: {source}")

    def __call__(self, context: Any) -> Any:
        return self._function(context)

    def __repr__(self) -> str:
        return f"({self._source})"


TEXT_SIZE = Expression("0 if this.value is None else len(this.value.encode()) + 1")
SIZE = Expression("0 if this.value is None else len(this.value) + 1")
CLASSIC_TEXT_SIZE = Expression("-1 if this.value is None else len(this.value.encode())")


def text() -> Any:
    return FocusedSeq(
        "value", "size" / Rebuild(VarInt, TEXT_SIZE), "value" / If(this.size > 0, PaddedString(this.size - 1, "utf8"))
    )


def blob() -> Any:
    return FocusedSeq("value", "size" / Rebuild(VarInt, SIZE), "value" / If(this.size > 0, Bytes(this.size - 1)))


def array(element: Any) -> Any:
    return FocusedSeq(
        "value", "size" / Rebuild(VarInt, SIZE), "value" / If(this.size > 0, Array(this.size - 1, element))
    )


DECLARED = {
    "RequestHeader": Struct(
        "request_api_key" / Int16sb,
        "request_api_version" / Int16sb,
        "correlation_id" / Int32sb,
        "client_id"
        / FocusedSeq(
            "value",
            "size" / Rebuild(Int16sb, CLASSIC_TEXT_SIZE),
            "value" / If(this.size >= 0, PaddedString(this.size, "utf8")),
        ),
        "tags" / Tags,
    ),
    "ProduceRequest": Struct(
        "transactional_id" / text(),
        "acks" / Int16sb,
        "timeout_ms" / Int32sb,
        "topic_data"
        / array(
            Struct(
                "name" / text(),
                "partition_data" / array(Struct("index" / Int32sb, "records" / blob(), "tags" / Tags)),
                "tags" / Tags,
            )
        ),
        "tags" / Tags,
    ),
    "ProduceResponse": Struct(
        "responses"
        / array(
            Struct(
                "name" / text(),
                "partition_responses"
                / array(
                    Struct(
                        "index" / Int32sb,
                        "error_code" / Int16sb,
                        "base_offset" / Int64sb,
                        "log_append_time_ms" / Int64sb,
                        "log_start_offset" / Int64sb,
                        "record_errors" / array(Struct("batch_index" / Int32sb, "message" / text(), "tags" / Tags)),
                        "error_message" / text(),
                        "tags" / Tags,
                    )
                ),
                "tags" / Tags,
            )
        ),
        "throttle_time_ms" / Int32sb,
        "tags" / Tags,
    ),
    "FetchRequest": Struct(
        "max_wait_ms" / Int32sb,
        "min_bytes" / Int32sb,
        "max_bytes" / Int32sb,
        "isolation_level" / Int8sb,
        "session_id" / Int32sb,
        "session_epoch" / Int32sb,
        "topics"
        / array(
            Struct(
                "topic_id" / Bytes(16),
                "partitions"
                / array(
                    Struct(
                        "partition" / Int32sb,
                        "current_leader_epoch" / Int32sb,
                        "fetch_offset" / Int64sb,
                        "last_fetched_epoch" / Int32sb,
                        "log_start_offset" / Int64sb,
                        "partition_max_bytes" / Int32sb,
                        "tags" / Tags,
                    )
                ),
                "tags" / Tags,
            )
        ),
        "forgotten_topics_data" / array(Struct("topic_id" / Bytes(16), "partitions" / array(Int32sb), "tags" / Tags)),
        "rack_id" / text(),
        "tags" / Tags,
    ),
    "FetchResponse": Struct(
        "throttle_time_ms" / Int32sb,
        "error_code" / Int16sb,
        "session_id" / Int32sb,
        "responses"
        / array(
            Struct(
                "topic_id" / Bytes(16),
                "partitions"
                / array(
                    Struct(
                        "partition_index" / Int32sb,
                        "error_code" / Int16sb,
                        "high_watermark" / Int64sb,
                        "last_stable_offset" / Int64sb,
                        "log_start_offset" / Int64sb,
                        "aborted_transactions"
                        / array(Struct("producer_id" / Int64sb, "first_offset" / Int64sb, "tags" / Tags)),
                        "preferred_read_replica" / Int32sb,
                        "records" / blob(),
                        "tags" / Tags,
                    )
                ),
                "tags" / Tags,
            )
        ),
        "tags" / Tags,
    ),
    "MetadataResponse": Struct(
        "throttle_time_ms" / Int32sb,
        "brokers"
        / array(Struct("node_id" / Int32sb, "host" / text(), "port" / Int32sb, "rack" / text(), "tags" / Tags)),
        "cluster_id" / text(),
        "controller_id" / Int32sb,
        "topics"
        / array(
            Struct(
                "error_code" / Int16sb,
                "name" / text(),
                "topic_id" / Bytes(16),
                "is_internal" / Flag,
                "partitions"
                / array(
                    Struct(
                        "error_code" / Int16sb,
                        "partition_index" / Int32sb,
                        "leader_id" / Int32sb,
                        "leader_epoch" / Int32sb,
                        "replica_nodes" / array(Int32sb),
                        "isr_nodes" / array(Int32sb),
                        "offline_replicas" / array(Int32sb),
                        "tags" / Tags,
                    )
                ),
                "topic_authorized_operations" / Int32sb,
                "tags" / Tags,
            )
        ),
        "error_code" / Int16sb,
        "tags" / Tags,
    ),
    "OffsetCommitRequest": Struct(
        "group_id" / text(),
        "generation_id_or_member_epoch" / Int32sb,
        "member_id" / text(),
        "group_instance_id" / text(),
        "topics"
        / array(
            Struct(
                "name" / text(),
                "partitions"
                / array(
                    Struct(
                        "partition_index" / Int32sb,
                        "committed_offset" / Int64sb,
                        "committed_leader_epoch" / Int32sb,
                        "committed_metadata" / text(),
                        "tags" / Tags,
                    )
                ),
                "tags" / Tags,
            )
        ),
        "tags" / Tags,
    ),
    "OffsetFetchResponse": Struct(
        "throttle_time_ms" / Int32sb,
        "groups"
        / array(
            Struct(
                "group_id" / text(),
                "topics"
                / array(
                    Struct(
                        "name" / text(),
                        "partitions"
                        / array(
                            Struct(
                                "partition_index" / Int32sb,
                                "committed_offset" / Int64sb,
                                "committed_leader_epoch" / Int32sb,
                                "metadata" / text(),
                                "error_code" / Int16sb,
                                "tags" / Tags,
                            )
                        ),
                        "tags" / Tags,
                    )
                ),
                "error_code" / Int16sb,
                "tags" / Tags,
            )
        ),
        "tags" / Tags,
    ),
    "JoinGroupRequest": Struct(
        "group_id" / text(),
        "session_timeout_ms" / Int32sb,
        "rebalance_timeout_ms" / Int32sb,
        "member_id" / text(),
        "group_instance_id" / text(),
        "protocol_type" / text(),
        "protocols" / array(Struct("name" / text(), "metadata" / blob(), "tags" / Tags)),
        "reason" / text(),
        "tags" / Tags,
    ),
    "HeartbeatRequest": Struct(
        "group_id" / text(),
        "generation_id" / Int32sb,
        "member_id" / text(),
        "group_instance_id" / text(),
        "tags" / Tags,
    ),
}
