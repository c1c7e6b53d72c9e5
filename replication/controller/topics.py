"""Topics and their partitions: CreateTopics, CreatePartitions, DeleteTopics, and the placement of replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...metadata.image import TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from ...protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID
from .configs import new_topic_configs, shown_topic_configs
from .policies import TopicCreation, violation
from .result import (
    MAX_PARTITIONS_PER_REQUEST,
    MAX_RECORDS_PER_REQUEST,
    ApiError,
    ControllerResult,
    RequestError,
    in_own_words,
)
from .state import CLUSTER_METADATA_TOPIC, ControllerState, RandomSource, check_collision, check_name, random_uuid

#: From this version on the response contains the configs of created topics.
_SHOWS_CONFIGS = 5
#: From this version on a broker may report that topic deletion is disabled. Before, the request is invalid.
_KNOWS_DELETION_DISABLED = 3


class _NewTopic(NamedTuple):
    """A valid topic to create."""

    result: CreatableTopicResult
    records: list[Message]


def create_topics(state: ControllerState, request: CreateTopicsRequest, version: int) -> ControllerResult:
    """Handles CreateTopics. Each topic succeeds or fails independently."""
    if sum(_asked_partitions(state, topic) for topic in request.topics) > MAX_PARTITIONS_PER_REQUEST:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    counts = Counter(topic.name for topic in request.topics)
    response = CreateTopicsResponse()
    records: list[Message] = []
    for topic in request.topics:
        if counts[topic.name] > 1 or topic.name == CLUSTER_METADATA_TOPIC:
            continue
        made = _created(state, topic, version)
        if isinstance(made, ApiError):
            response.topics.append(_error_response(topic.name, made))
        else:
            response.topics.append(made.result)
            records += made.records
    response.topics += [_error_response(name, error) for name, error in _rejected_by_name(counts)]
    return ControllerResult(records, response, validate_only=request.validate_only)


def _asked_partitions(state: ControllerState, topic: CreatableTopic) -> int:
    return len(topic.assignments) or max(0, _or_default(state, topic.num_partitions, "num.partitions"))


def _rejected_by_name(counts: Counter[str]) -> Iterable[tuple[str, ApiError]]:
    """Yields the errors of duplicate and reserved names. Kafka puts them last in the response."""
    for name, count in counts.items():
        if count > 1:
            yield name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if counts[CLUSTER_METADATA_TOPIC] == 1:
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        yield CLUSTER_METADATA_TOPIC, ApiError(ErrorCode.INVALID_REQUEST, message)


def _error_response(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _created(state: ControllerState, topic: CreatableTopic, version: int) -> _NewTopic | ApiError:
    for check in (_check_absent, _check_name, _check_collision):
        error = check(state, topic)
        if error is not None:
            return error
    topic_id = random_uuid(state.rng)
    configs = new_topic_configs(state, topic)
    if isinstance(configs, ApiError):
        return configs
    partitions = _assigned(state, topic_id, topic) if topic.assignments else _placed(state, topic_id, topic)
    error = partitions if isinstance(partitions, ApiError) else _check_policy(state, topic, partitions)
    if error is not None:
        return error
    assert not isinstance(partitions, ApiError)
    if state.rejects_mutation(len(partitions)):
        return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None, configs=[])
    if version >= _SHOWS_CONFIGS:
        result.num_partitions = len(partitions)
        result.replication_factor = len(partitions[0].replicas)
        result.configs = shown_topic_configs(state, topic)
    return _NewTopic(result, [TopicRecord(name=topic.name, topic_id=topic_id), *configs, *partitions])


def _check_absent(state: ControllerState, topic: CreatableTopic) -> ApiError | None:
    if state.image.topic(topic.name) is None:
        return None
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")


def _check_name(_state: ControllerState, topic: CreatableTopic) -> ApiError | None:
    return check_name(topic.name)


def _check_collision(state: ControllerState, topic: CreatableTopic) -> ApiError | None:
    return check_collision(topic.name, state.colliding_names)


def _assigned(state: ControllerState, topic_id: bytes, topic: CreatableTopic) -> list[PartitionRecord] | ApiError:
    """Returns the partitions of a topic with a manual assignment."""
    error = _check_nothing_else_said(topic)
    made: dict[int, PartitionRecord] = {}
    replication_factor = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        error = (
            error
            or _check_named_once(index, made)
            or check_assignment(state, assignment.broker_ids, replication_factor)
        )
        if error is not None:
            return error
        replication_factor = len(assignment.broker_ids)
        record = new_partition(state, topic_id, index, assignment.broker_ids)
        if record is None:
            return all_fenced_in_assignment(index)
        made[index] = record
    return _check_consecutive(made) or [made[index] for index in sorted(made)]


def _check_policy(state: ControllerState, topic: CreatableTopic, partitions: list[PartitionRecord]) -> ApiError | None:
    policy = state.policies.create_topic
    if policy is None:
        return None
    is_assigned = bool(topic.assignments)
    creation = TopicCreation(
        topic.name,
        None if is_assigned else len(partitions),
        None if is_assigned else len(partitions[0].replicas),
        {one.partition_id: tuple(one.replicas) for one in partitions} if is_assigned else None,
        {config.name: config.value for config in topic.configs if config.value is not None},
    )
    return violation(policy.validate, creation)


def _check_nothing_else_said(topic: CreatableTopic) -> ApiError | None:
    said = "A manual partition assignment was specified, but "
    if topic.replication_factor != -1:
        return ApiError(ErrorCode.INVALID_REQUEST, said + "replication factor was not set to -1.")
    if topic.num_partitions != -1:
        return ApiError(ErrorCode.INVALID_REQUEST, said + "numPartitions was not set to -1.")
    return None


def _check_named_once(index: int, made: dict[int, PartitionRecord]) -> ApiError | None:
    if index not in made:
        return None
    message = f"Found multiple manual partition assignments for partition {index}"
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _check_consecutive(made: dict[int, PartitionRecord]) -> ApiError | None:
    if sorted(made) == list(range(len(made))):
        return None
    message = "partitions should be a consecutive 0-based integer sequence"
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _placed(state: ControllerState, topic_id: bytes, topic: CreatableTopic) -> list[PartitionRecord] | ApiError:
    """Returns the partitions of a topic with replicas placed by the controller. -1 means the broker's default."""
    error = _check_replication_factor(topic) or _check_partitions(topic)
    if error is not None:
        return error
    partitions = _or_default(state, topic.num_partitions, "num.partitions")
    replication_factor = _or_default(state, topic.replication_factor, "default.replication.factor")
    placed = place(partitions, replication_factor, usable_brokers(state), state.rng)
    if isinstance(placed, ApiError):
        return ApiError(
            placed.code, f"Unable to replicate the partition {replication_factor} time(s): {placed.message}"
        )
    made: list[PartitionRecord] = []
    for index, replicas in enumerate(placed):
        record = new_partition(state, topic_id, index, replicas)
        if record is None:
            return all_fenced_in_placement(replication_factor)
        made.append(record)
    return made


def _check_replication_factor(topic: CreatableTopic) -> ApiError | None:
    if topic.replication_factor > 0 or topic.replication_factor == -1:
        return None
    message = "Replication factor must be larger than 0, or -1 to use the default value."
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _check_partitions(topic: CreatableTopic) -> ApiError | None:
    if topic.num_partitions > 0 or topic.num_partitions == -1:
        return None
    return ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")


def _or_default(state: ControllerState, said: int, key: str) -> int:
    value = state.values.get(key) if said == -1 else said
    assert isinstance(value, int)
    return value


def delete_topics(state: ControllerState, request: DeleteTopicsRequest, version: int) -> ControllerResult:
    """Handles DeleteTopics, by name or, from version 6, by id. A topic named twice, in whatever way, is not deleted."""
    if state.values.get("delete.topic.enable") is not True:
        code = ErrorCode.TOPIC_DELETION_DISABLED if version >= _KNOWS_DELETION_DISABLED else ErrorCode.INVALID_REQUEST
        raise RequestError(code, "Topic deletion is disabled.")
    response = DeleteTopicsResponse()
    by_id = Counter(t.topic_id for t in request.topics if t.name is None and t.topic_id != ZERO_UUID)
    by_name = Counter([*request.topic_names, *_named(request)])
    response.responses += _contradictions(request)
    response.responses += _duplicates(by_name, by_id)
    ids = _existing_ids(state, by_id, response)
    for name in (name for name, count in by_name.items() if count == 1):
        _add_named(state, name, by_id, ids, response)
    records: list[Message] = []
    for topic_id, name in ids.items():
        error = None
        if state.rejects_mutation(len(state.image.topics.by_id[topic_id].partitions)):
            error = in_own_words(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            records.append(RemoveTopicRecord(topic_id=topic_id))
        response.responses.append(_deletion(name, topic_id, error))
    return ControllerResult(records, response)


def _named(request: DeleteTopicsRequest) -> list[str]:
    return [topic.name for topic in request.topics if topic.name is not None and topic.topic_id == ZERO_UUID]


def _contradictions(request: DeleteTopicsRequest) -> Iterable[DeletableTopicResult]:
    for topic in request.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            message = "Neither topic name nor id were specified."
        elif topic.name is not None and topic.topic_id != ZERO_UUID:
            message = "You may not specify both topic name and topic id."
        else:
            continue
        yield _deletion(topic.name, topic.topic_id, ApiError(ErrorCode.INVALID_REQUEST, message))


def _duplicates(by_name: Counter[str], by_id: Counter[bytes]) -> Iterable[DeletableTopicResult]:
    for name, count in by_name.items():
        if count > 1:
            yield _deletion(name, ZERO_UUID, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    for topic_id, count in by_id.items():
        if count > 1:
            yield _deletion(None, topic_id, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic id."))


def _existing_ids(state: ControllerState, by_id: Counter[bytes], response: DeleteTopicsResponse) -> dict[bytes, str]:
    """Returns the existing topics of ids that occur once, with their names; adds the errors of the others to the
    response.
    """
    found: dict[bytes, str] = {}
    for topic_id in (topic_id for topic_id, count in by_id.items() if count == 1):
        topic = state.image.topic_by_id(topic_id)
        if topic is None:
            response.responses.append(_deletion(None, topic_id, in_own_words(ErrorCode.UNKNOWN_TOPIC_ID)))
        else:
            found[topic_id] = topic.name
    return found


def _add_named(
    state: ControllerState,
    name: str,
    by_id: Counter[bytes],
    ids: dict[bytes, str],
    response: DeleteTopicsResponse,
) -> None:
    topic = state.image.topic(name)
    if topic is None:
        error = in_own_words(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        response.responses.append(_deletion(name, ZERO_UUID, error))
    elif topic.id in by_id:
        ids.pop(topic.id, None)
        message = "The provided topic name maps to an ID that was already supplied."
        response.responses.append(_deletion(name, topic.id, ApiError(ErrorCode.INVALID_REQUEST, message)))
    else:
        ids[topic.id] = name


def _deletion(name: str | None, topic_id: bytes, error: ApiError | None) -> DeletableTopicResult:
    code, message = error or (ErrorCode.NONE, None)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


# ---- partitions

# Placement of the replicas of new partitions: Kafka's striped placement.
#
# Every partition is spread over the racks, and within a rack over its brokers, in stripes. Each partition begins one
# rack further than the one before, and each rack one broker further. Leaders are therefore even over racks and brokers.
# Fenced brokers get replicas only if there are too few unfenced ones, and never lead. After as many partitions as there
# are unfenced brokers, the orders are shuffled so that the same sets do not repeat.


class UsableBroker(NamedTuple):
    id: int
    rack: str | None
    fenced: bool


class _Ring:
    """The fenced or the unfenced brokers of one rack. In each epoch the round begins one broker further."""

    def __init__(self, brokers: list[int], rng: RandomSource) -> None:
        self.brokers = sorted(brokers)
        self._offset = rng.randrange(len(brokers)) if brokers else 0
        self._index = 0
        self._epoch = 0

    def next(self, epoch: int) -> int | None:
        """Returns the next broker, None if all were returned in this epoch."""
        if not self.brokers:
            return None
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._index >= len(self.brokers):
            return None
        found = self.brokers[(self._index + self._offset) % len(self.brokers)]
        self._index += 1
        return found


class _Rack:
    def __init__(self, brokers: list[UsableBroker], rng: RandomSource) -> None:
        self.fenced = _Ring([broker.id for broker in brokers if broker.fenced], rng)
        self.unfenced = _Ring([broker.id for broker in brokers if not broker.fenced], rng)

    def next(self, epoch: int) -> int | None:
        found = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if found is None else found


class _Racks:
    def __init__(self, brokers: list[UsableBroker], rng: RandomSource) -> None:
        names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack([broker for broker in brokers if broker.rack == name], rng) for name in names]
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._rng = rng
        self._epoch = 0
        self._offset = rng.randrange(len(self._racks))

    def place(self, replication_factor: int) -> list[int]:
        if self._epoch == self._unfenced and self._unfenced > 1:
            self._shuffle()
        self._offset %= len(self._racks)
        leader, leading_rack = self._leader()
        replicas = [leader]
        index, skip = self._offset, leading_rack
        while len(replicas) < replication_factor:
            if index == skip:  # the leader is in this rack
                skip = -1
            else:
                found = self._racks[index].next(self._epoch)
                if found is not None:
                    replicas.append(found)
            index = (index + 1) % len(self._racks)
        self._epoch += 1
        self._offset += 1
        return replicas

    def _leader(self) -> tuple[int, int]:
        """Returns the next unfenced broker and the index of its rack."""
        index = self._offset
        while (found := self._racks[index].unfenced.next(self._epoch)) is None:
            index = (index + 1) % len(self._racks)
        return found, index

    def _shuffle(self) -> None:
        self._rng.shuffle(self._racks)
        for rack in self._racks:
            self._rng.shuffle(rack.fenced.brokers)
            self._rng.shuffle(rack.unfenced.brokers)
        self._epoch = 0


def check_placement(replication_factor: int, brokers: list[UsableBroker]) -> ApiError | None:
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    if replication_factor <= 0:
        return ApiError(
            code, f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if not any(not broker.fenced for broker in brokers):
        return ApiError(code, "All brokers are currently fenced.")
    if replication_factor > len(brokers):
        return ApiError(
            code,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    return None


def place(
    partitions: int, replication_factor: int, brokers: Iterable[UsableBroker], rng: RandomSource
) -> list[list[int]] | ApiError:
    """Returns the replicas of each partition, the preferred leader first."""
    usable = list(brokers)
    error = check_placement(replication_factor, usable)
    if error is not None:
        return error
    racks = _Racks(usable, rng)
    return [racks.place(replication_factor) for _ in range(partitions)]


def create_partitions(state: ControllerState, request: CreatePartitionsRequest, version: int) -> ControllerResult:
    """Handles CreatePartitions. A topic named twice gets one error and no change; the others are independent."""
    counts = Counter(topic.name for topic in request.topics)
    response = CreatePartitionsResponse()
    for name, count in counts.items():
        if count > 1:
            response.results.append(_result(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
    records: list[Message] = []
    for topic in request.topics:
        if counts[topic.name] == 1:
            made = _grown(state, topic, MAX_RECORDS_PER_REQUEST - len(records))
            response.results.append(_result(topic.name, made if isinstance(made, ApiError) else None))
            if not isinstance(made, ApiError):
                records += made
    return ControllerResult(records, response, validate_only=request.validate_only)


def _result(name: str, error: ApiError | None) -> CreatePartitionsTopicResult:
    code, message = error or (ErrorCode.NONE, None)
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)


def _grown(state: ControllerState, asked: CreatePartitionsTopic, most: int) -> list[PartitionRecord] | ApiError:
    """Returns the records of the added partitions.

    Raises RequestError for more than `most` partitions before it places any: a four-byte count must not cost memory
    for two billion. Kafka returns the same error after it has placed them.
    """
    topic = state.image.topic(asked.name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for check in (_check_increase, _check_number_of_assignments):
        error = check(topic, asked)
        if error is not None:
            return error
    if asked.count - len(topic.partitions) > most:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if state.rejects_mutation(asked.count - len(topic.partitions)):
        return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    replicas = _replicas(state, topic, asked)
    if isinstance(replicas, ApiError):
        return replicas
    made: list[PartitionRecord] = []
    for index, brokers in enumerate(replicas, len(topic.partitions)):
        record = new_partition(state, topic.id, index, brokers)
        if record is None:
            return _nobody_active(index, brokers, asked)
        made.append(record)
    return made


def _check_increase(topic: TopicImage, asked: CreatePartitionsTopic) -> ApiError | None:
    now = len(topic.partitions)
    if asked.count > now:
        return None
    if asked.count == now:
        return ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    return ApiError(
        ErrorCode.INVALID_PARTITIONS,
        f"The topic {asked.name} currently has {now} partition(s); {asked.count} would not be an increase.",
    )


def _check_number_of_assignments(topic: TopicImage, asked: CreatePartitionsTopic) -> ApiError | None:
    additional = asked.count - len(topic.partitions)
    if asked.assignments is None or len(asked.assignments) == additional:
        return None
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)} assignment(s) "
        "were specified.",
    )


def _replicas(
    state: ControllerState, topic: TopicImage, asked: CreatePartitionsTopic
) -> Sequence[Sequence[int]] | ApiError:
    replication_factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        return place(asked.count - len(topic.partitions), replication_factor, usable_brokers(state), state.rng)
    for assignment in asked.assignments:
        error = check_assignment(state, assignment.broker_ids, replication_factor)
        if error is not None:
            return error
    return [assignment.broker_ids for assignment in asked.assignments]


def _nobody_active(index: int, brokers: Sequence[int], asked: CreatePartitionsTopic) -> ApiError:
    if asked.assignments is not None:
        return all_fenced_in_assignment(index)
    return all_fenced_in_placement(len(brokers))


def all_fenced_in_assignment(index: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
        "shutdown.",
    )


def all_fenced_in_placement(replication_factor: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced or in "
        "controlled shutdown.",
    )


def check_assignment(
    state: ControllerState, broker_ids: Sequence[int], replication_factor: int | None
) -> ApiError | None:
    """Checks a manual assignment of one partition. `replication_factor` is that of the others, None for the first."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not broker_ids:
        return ApiError(code, "The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(broker_ids):
        if state.image.broker(broker_id) is None:
            return ApiError(
                code,
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
            )
        if broker_id == previous:
            return ApiError(code, f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        return ApiError(
            code,
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s).",
        )
    return None


def new_partition(
    state: ControllerState, topic_id: bytes, index: int, replicas: Sequence[int]
) -> PartitionRecord | None:
    """Returns the record of a partition with these replicas; None if none of their brokers is active."""
    isr = [broker_id for broker_id in replicas if state.is_active(broker_id)]
    if not isr:
        return None
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[state.default_directory(broker_id) for broker_id in replicas],
    )


def usable_brokers(state: ControllerState) -> list[UsableBroker]:
    """Returns the brokers that may get new replicas: not those with all directories cordoned (KIP-1066)."""
    return [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in state.image.cluster.brokers.values()
        if not broker.directories or set(broker.directories) - set(broker.cordoned_directories)
    ]
