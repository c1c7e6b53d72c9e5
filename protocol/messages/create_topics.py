"""CreateTopics (key 19): makes topics.

Each topic is created with a number of partitions and replicas, or with a replica assignment; -1 takes the default.
The controller validates names (INVALID_TOPIC_EXCEPTION, also for names that differ only in . and _), configs, counts and
replicas, and calls the create-topic policy. `validate_only` does all of it and creates nothing. The response has the
configs, counts and id of each created topic.

Versions 2-7, flexible from 5. Additions by version:
- 4: counts may be left to the broker (KIP-464)
- 5: partitions, replicas and configs in the response (KIP-525)
- 6: may be throttled by THROTTLING_QUOTA_EXCEEDED (KIP-599)
- 7: topic id in the response (KIP-516)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire


@struct
class CreatableReplicaAssignment(Message):
    partition_index: int = wire(INT32)
    broker_ids: list[int] = wire(array(INT32))


@struct
class CreatableTopicConfig(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")


@struct
class CreatableTopic(Message):
    name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: list[CreatableReplicaAssignment] = wire(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = wire(array(CreatableTopicConfig))


@message("2-7", flexible="5+", key=19)
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    topics: list[CreatableTopic] = wire(array(CreatableTopic))
    timeout_ms: int = wire(INT32, default=60000)
    validate_only: bool = wire(BOOL, "1+")


@struct
class CreatableTopicConfigs(Message):
    name: str = wire(STRING, "5+")
    value: str | None = wire(STRING, "5+", nullable="5+")
    read_only: bool = wire(BOOL, "5+")
    config_source: int = wire(INT8, "5+", default=-1)
    is_sensitive: bool = wire(BOOL, "5+")


@struct
class CreatableTopicResult(Message):
    name: str = wire(STRING)
    topic_id: bytes = wire(UUID, "7+")
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "1+", nullable="0+")
    topic_config_error_code: int = wire(INT16, "5+", tag=0)
    num_partitions: int = wire(INT32, "5+", default=-1)
    replication_factor: int = wire(INT16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = wire(array(CreatableTopicConfigs), "5+", nullable="5+")


@message("2-7", flexible="5+", key=19)
class CreateTopicsResponse(Message):
    throttle_time_ms: int = wire(INT32, "2+")
    topics: list[CreatableTopicResult] = wire(array(CreatableTopicResult))
