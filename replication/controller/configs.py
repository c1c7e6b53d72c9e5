"""ConfigRecords: the changes of AlterConfigs and IncrementalAlterConfigs, and the configs of new topics.

The changes of one resource are atomic; the resources of a request are independent. Values are validated as they would
be together after the change. Broker loggers are not stored configuration; each broker handles its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...metadata.configs import (
    BrokerValues,
    ConfigResourceType,
    InvalidConfig,
    appended,
    check_table_configs,
    check_table_place,
    default_text,
    is_list,
    subtracted,
    topic_defaults,
    validate,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_topic_configs,
)
from ...metadata.configs.describe import describe_topic
from ...metadata.configs.table_rules import CATALOG, WAREHOUSE
from ...metadata.image import ConfigResource
from ...metadata.mirror_keys import FOLLOWED_CONFIGS, MIRROR_CUT, MIRROR_NAME, OF_MIRRORS
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import ClearElrRecord, ConfigRecord
from ...protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ...protocol.messages.alter_configs_results import AlterConfigsResourceResponse
from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfigs
from ...protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...protocol.schema import Message
from ..mirror.read_only import read_only
from .min_isr import MIN_ISR
from .mirror_epochs import new_epoch
from .policies import ConfigAlteration, violation
from .result import ApiError, ControllerResult
from .state import ControllerState
from .topic_names import check_name

# IncrementalAlterConfigs' operation codes.
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_OPERATION_NAMES = {_SET: "SET", _DELETE: "DELETE", _APPEND: "APPEND", _SUBTRACT: "SUBTRACT"}

#: Configs of a mirrored topic that its source decides.
_OF_SOURCE = frozenset({*FOLLOWED_CONFIGS, *OF_MIRRORS})

#: New values by key (None: delete), in the order of the request.
Changes = Mapping[str, str | None]


def incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest, version: int
) -> ControllerResult:
    response = IncrementalAlterConfigsResponse()
    records: list[ConfigRecord] = []
    epochs: list[Message] = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        key = resource.resource_type, resource.resource_name
        changes = _check_resource(key, counts) or _computed(state, resource)
        made = changes if isinstance(changes, ApiError) else _altered(state, key, changes, ())
        altered, more = _outcome(key, made)
        response.responses.append(altered)
        records += more
        epochs += [new for one in more if one.name == MIRROR_CUT for new in new_epoch(state, key[1], one.value)]
    changed = [*_with_elr_clearing(state, records), *epochs]
    return ControllerResult(changed, response, validate_only=request.validate_only)


def alter_configs(state: ControllerState, request: AlterConfigsRequest, version: int) -> ControllerResult:
    """Handles AlterConfigs. Keys that the request does not name are deleted."""
    response = AlterConfigsResponse()
    records: list[ConfigRecord] = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in request.resources:
        key = resource.resource_type, resource.resource_name
        error = _check_resource(key, counts)
        said = {config.name: config.value for config in resource.configs}
        gone = sorted(name for name in state.image.config(*key) if name not in said)
        altered, more = _outcome(key, error or _altered(state, key, said, gone))
        response.responses.append(altered)
        records += more
    return ControllerResult(_with_elr_clearing(state, records), response, validate_only=request.validate_only)


def _outcome(
    key: tuple[int, str], outcome: list[ConfigRecord] | ApiError
) -> tuple[AlterConfigsResourceResponse, list[ConfigRecord]]:
    error = outcome if isinstance(outcome, ApiError) else ApiError(ErrorCode.NONE)
    altered = AlterConfigsResourceResponse(
        error_code=error.code, error_message=error.message, resource_type=key[0], resource_name=key[1]
    )
    return altered, outcome if isinstance(outcome, list) else []


def _check_resource(resource: ConfigResource, counts: Counter[ConfigResource]) -> ApiError | None:
    if counts[resource] > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
    if resource[0] not in (t.value for t in ConfigResourceType) or resource[0] == ConfigResourceType.UNKNOWN:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {resource[0]}.")
    return None


def _computed(state: ControllerState, resource: AlterConfigsResource) -> Changes | ApiError:
    """Returns the changes that the operations of a request make to the current values."""
    current = state.image.config(resource.resource_type, resource.resource_name)
    changes: dict[str, str | None] = {}
    for config in resource.configs:
        name, operation = config.name, config.config_operation
        if operation not in _OPERATION_NAMES:
            return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
        if operation in (_APPEND, _SUBTRACT):
            if not is_list(resource.resource_type, name):
                message = f"Can't {_OPERATION_NAMES[operation]} to key {name} because its type is not LIST."
                return ApiError(ErrorCode.INVALID_CONFIG, message)
            # An empty value is a value: only a key without one begins with its default.
            base = current[name] if name in current else default_text(resource.resource_type, name)
            change = appended if operation == _APPEND else subtracted
            changes[name] = change(base or "", config.value or "")
        else:
            changes[name] = config.value if operation == _SET else None
    return changes


def _altered(
    state: ControllerState, resource: ConfigResource, changes: Changes, gone: Iterable[str]
) -> list[ConfigRecord] | ApiError:
    """Returns the records for the changes and for the deleted keys."""
    current = state.image.config(*resource)
    # A broker gets a record even for an unchanged value: it may have failed to apply it before (KAFKA-14136).
    reported_again = resource[0] == ConfigResourceType.BROKER
    changed = {name: value for name, value in changes.items() if reported_again or current.get(name) != value}
    after = dict(current)
    for name, value in [*changed.items(), *((name, None) for name in gone)]:
        if value is None:
            after.pop(name, None)
        else:
            after[name] = value
    error = (
        _check_values(state, resource, after)
        or _check_exists(state, resource)
        or _check_min_isr(state, resource, [*changed, *gone], after)
        or _check_mirror(state, resource, changes, gone)
        or _check_policy(state, resource, changed)
    )
    if error is not None:
        return error
    return [
        *(_record(resource, name, value) for name, value in changed.items()),
        *(_record(resource, name, None) for name in gone),
    ]


def _record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)


def _with_elr_clearing(state: ControllerState, records: Sequence[ConfigRecord]) -> list[Message]:
    """Adds records that clear the ELR. Its members were chosen by the old min.insync.replicas (KIP-966)."""
    cleared = [
        ClearElrRecord(topic_name=record.resource_name if record.resource_type == ConfigResourceType.TOPIC else "")
        for record in records
        if state.elr_enabled and record.name == MIN_ISR
    ]
    return [*records, *cleared]


def _check_values(state: ControllerState, resource: ConfigResource, after: dict[str, str]) -> ApiError | None:
    resource_type, name = resource
    try:
        if resource_type == ConfigResourceType.TOPIC:
            return _check_topic_name(name) or _validate_topic(state, name, after)
        if resource_type == ConfigResourceType.BROKER:
            return _check_broker_name(name)
        if resource_type == ConfigResourceType.GROUP:
            if not name:
                return ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            validate_group_configs(after, state.values)
        elif resource_type == ConfigResourceType.CLIENT_METRICS:
            validate_client_metrics_configs(name, after)
        else:
            return ApiError(
                ErrorCode.INVALID_REQUEST, f"Unknown resource type {ConfigResourceType(resource_type).name}"
            )
    except InvalidConfig as request_error:
        return ApiError(request_error.error, str(request_error))
    return None


def _check_topic_name(name: str) -> ApiError | None:
    if not name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    return check_name(name)


def _check_broker_name(name: str) -> ApiError | None:
    if not name:
        return None
    try:
        broker_id = int(name)
    except ValueError:
        return ApiError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    return ApiError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.") if broker_id < 0 else None


def _validate_topic(state: ControllerState, name: str, after: Mapping[str, str]) -> ApiError | None:
    current = state.image.config(ConfigResourceType.TOPIC, name)
    try:
        tiered = bool(state.values.get("remote.log.storage.system.enable"))
        validate_topic_configs(after, topic_defaults(state.values), current, tiered=tiered)
        check_table_configs(after)
        check_table_place(after, current, state.values.get(WAREHOUSE), state.values.get(CATALOG))
    except InvalidConfig as request_error:
        return ApiError(request_error.error, str(request_error))
    return None


def _check_exists(state: ControllerState, resource: ConfigResource) -> ApiError | None:
    """Checks that a topic or broker exists. Groups and client metrics subscriptions are created by configuring them."""
    resource_type, name = resource
    if resource_type == ConfigResourceType.TOPIC and state.image.topic(name) is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if resource_type == ConfigResourceType.BROKER and name and not _node_exists(state, int(name)):
        return ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")
    return None


def _node_exists(state: ControllerState, node_id: int) -> bool:
    cluster = state.image.cluster
    return node_id in cluster.brokers or node_id in cluster.controllers or node_id == state.node_id


def _check_min_isr(
    state: ControllerState, resource: ConfigResource, names: Iterable[str], after: Mapping[str, str]
) -> ApiError | None:
    """Checks that with ELR enabled min.insync.replicas has one value for the whole cluster (KIP-966)."""
    if not state.elr_enabled or resource[0] != ConfigResourceType.BROKER or MIN_ISR not in names:
        return None
    if resource[1]:
        message = f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
        return ApiError(ErrorCode.INVALID_CONFIG, message)
    if MIN_ISR not in after:
        message = f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
        return ApiError(ErrorCode.INVALID_CONFIG, message)
    try:
        validate(ConfigResourceType.BROKER, MIN_ISR, after[MIN_ISR])
    except InvalidConfig as request_error:
        return ApiError(request_error.error, str(request_error))
    return None


def _check_mirror(
    state: ControllerState, resource: ConfigResource, changes: Changes, gone: Iterable[str]
) -> ApiError | None:
    """Checks that configs of a mirrored topic follow its source. A change that names the link is the link's own.

    AlterConfigs deletes what it does not name: a client that has not heard of mirrors would end the following.
    """
    if resource[0] != ConfigResourceType.TOPIC or MIRROR_NAME in changes:
        return None
    link = state.image.config(*resource).get(MIRROR_NAME, "")
    if not link or _OF_SOURCE.isdisjoint([*changes, *gone]):
        return None
    return ApiError(ErrorCode.POLICY_VIOLATION, read_only(resource[1], link))


def _check_policy(state: ControllerState, resource: ConfigResource, changed: Changes) -> ApiError | None:
    """Keys that AlterConfigs deletes by not naming them are left out (KAFKA-14195)."""
    policy = state.policies.alter_config
    if policy is None:
        return None
    return violation(policy.validate, ConfigAlteration(ConfigResourceType(resource[0]), resource[1], changed))


def new_topic_configs(state: ControllerState, topic: CreatableTopic) -> list[Message] | ApiError:
    """Returns the records for the configs in the request."""
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        return ApiError(ErrorCode.INVALID_CONFIG, message)
    said = _said(topic)
    resource = (ConfigResourceType.TOPIC, topic.name)
    error = (_validate_topic(state, topic.name, said) or _check_policy(state, resource, said)) if said else None
    return error or _with_elr_clearing(state, [_record(resource, name, value) for name, value in said.items()])


def _said(topic: CreatableTopic) -> dict[str, str]:
    return {config.name: config.value for config in topic.configs if config.value is not None}


def shown_topic_configs(state: ControllerState, topic: CreatableTopic) -> list[CreatableTopicConfigs]:
    """Returns every config of a new topic with its value and source, by name. Requested values are shown unchanged.

    Topics that set no config share the elements, until a default changes. Each has a list of its own, since the owner of a
    response empties its lists.
    """
    said, values = _said(topic), state.values
    if said:
        return _shown_configs(said, values)
    kept = state.shown_configs
    if kept is None or kept[0] is not values:
        kept = state.shown_configs = values, _shown_configs({}, values)
    return kept[1].copy()


def _shown_configs(said: dict[str, str], values: BrokerValues) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=said.get(entry.name, entry.value),
            config_source=entry.config_source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(said, values)
    ]
