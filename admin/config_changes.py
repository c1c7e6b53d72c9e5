"""Changes of configs: values that are set, deleted, appended or subtracted (KIP-339), and their validation by the broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

from ..protocol.messages.alter_configs import AlterConfigsRequest, LegacyAlterableConfig, LegacyAlterConfigsResource
from ..protocol.messages.alter_configs_results import AlterConfigsResourceResponse
from ..protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from .configs import Kind, node_of, own_values, subject_of
from .errors import InvalidOptions, NotSupported, check
from .session import Admin

#: Topics that change in one request.
_AT_ONCE = 1000
#: By key: SET, DELETE, APPEND or SUBTRACT, and the value.
Changes = Mapping[str, tuple[str, str | None]]


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def alter_configs(admin: Admin, kind: str, name: str, changes: Changes, *, dry_run: bool) -> None:
    """Sets, deletes, appends to or subtracts from configs. Raises ResponseError."""
    resource = Kind[kind.upper()]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource, name, _entries(changes))], validate_only=dry_run
    )
    try:
        (result,) = admin.ask(request, node_of(resource, name)).responses
    except NotSupported:
        result = _altered_as_whole(admin, resource, name, changes, dry_run=dry_run)
    check(subject_of(resource, name), result.error_code, result.error_message)


def _entries(changes: Changes) -> list[AlterableConfig]:
    return [AlterableConfig(key, Operation[word], value) for key, (word, value) in changes.items()]


def alter_topic_configs(admin: Admin, changes: Mapping[str, Changes]) -> Iterator[AlterConfigsResourceResponse]:
    """Changes configs of topics through the controller. Yields the result of each, with its error code; an end of the
    iteration leaves the topics behind it as they are.
    """
    resources = [AlterConfigsResource(Kind.TOPIC, name, _entries(one)) for name, one in changes.items()]
    for start in range(0, len(resources), _AT_ONCE):
        request = IncrementalAlterConfigsRequest(resources=resources[start : start + _AT_ONCE])
        yield from admin.ask_controller(request).responses


def _altered_as_whole(
    admin: Admin, kind: Kind, name: str, changes: Changes, *, dry_run: bool
) -> AlterConfigsResourceResponse:
    """Replaces all configs of a resource: for brokers before Apache Kafka 2.3. Raises NotSupported for changes of lists, and
    InvalidOptions for a resource with values that no broker shows: they would be lost.
    """
    if any(word not in ("SET", "DELETE") for word, _ in changes.values()):
        raise NotSupported("IncrementalAlterConfigs")
    values = {key: one.value for key, one in own_values(admin, kind, name).items()}
    hidden = sorted(key for key, value in values.items() if value is None and key not in changes)
    if hidden:
        raise InvalidOptions(
            f"{subject_of(kind, name)}: these brokers replace all configs at once, and do not show {', '.join(hidden)}: "
            "set these, too"
        )
    for key, (word, value) in changes.items():
        if word == "SET":
            values[key] = value
        else:
            values.pop(key, None)
    entries = [LegacyAlterableConfig(key, value) for key, value in values.items()]
    resources = [LegacyAlterConfigsResource(kind, name, entries)]
    request = AlterConfigsRequest(resources=resources, validate_only=dry_run)
    (result,) = admin.ask(request, node_of(kind, name)).responses
    return result
