"""A broker's own checks of a request that changes configurations, before the controller handles the rest.

Resources that a request names twice, or with a key twice or without a value, are rejected here, one by one. The broker
checks its own values, since only it can determine their effect; its loggers are changed only here. The remaining
resources go to the controller, and the results are joined in the order of the request.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from ...metadata.acls import Operation
from ...metadata.acls import ResourceType as AclResourceType
from ...metadata.configs import (
    BrokerValues,
    InvalidConfig,
    ResourceType,
    usable_dynamic_configs,
    validate_broker_change,
)
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..access.authorization.requirements import WORDS, Checked, adding, without
from ..access.authorization.sessions import AuthorizationSession
from ..access.node_tls import StoresNotRead
from ..config.broker_config import BrokerConfig
from ..config.listeners import read_listeners
from ..network.call import Call

if TYPE_CHECKING:
    from ...protocol.messages.configs import (
        AlterableConfig,
        AlterConfigsRequest,
        AlterConfigsResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
        LegacyAlterableConfig,
    )
    from ..access.subsystem import AccessSubsystem
    from ..runtime.subsystem import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .subsystem import ControllerSubsystem


class ConfigServices(Protocol):
    """The parts of a node that changes of configurations use."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def node_id(self) -> int: ...
    @property
    def controller(self) -> ControllerSubsystem: ...
    @property
    def metadata(self) -> MetadataCache: ...
    @property
    def pools(self) -> ThreadPools: ...
    @property
    def access(self) -> AccessSubsystem: ...


class ConfigsResource(Protocol):
    """A resource in a request of AlterConfigs or IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[LegacyAlterableConfig | AlterableConfig]: ...


ConfigsRequest = Union["AlterConfigsRequest", "IncrementalAlterConfigsRequest"]
AlterConfigsResult = Union["AlterConfigsResponse", "IncrementalAlterConfigsResponse"]
#: Checks one resource of a request. Returns True when it is done, False when the controller handles it. Raises Rejected.
Check = Callable[[ConfigServices, Call, Any], bool]


class Rejected(Exception):
    """The validation error of one resource of a request; it does not affect the others."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def change_configs(
    services: ConfigServices, call: Call, check: Check, outcome_class: Callable[..., Message]
) -> Message | None:
    """Handles AlterConfigs or IncrementalAlterConfigs; `outcome_class` is what the response has one of per resource."""
    request = call.request
    try:
        outcomes = _checked(services, call, check)
    except StoresNotRead as missing:  # keys and certificates, which a thread reads

        def again(_: object) -> None:
            response = change_configs(services, call, check, outcome_class)
            if response is not None:
                call.reply(response)

        services.pools.cpu.run_then(missing.read, again)
        return None
    remaining = [resource for resource, done in zip(request.resources, outcomes) if done is None]
    response_class: Callable[..., Any] = call.api.response

    def respond(decided: AlterConfigsResult) -> Message:
        found = {(r.resource_type, r.resource_name): (r.error_code, r.error_message) for r in decided.responses}
        lost = ErrorCode.UNKNOWN_SERVER_ERROR, None
        response: Message = response_class(
            throttle_time_ms=decided.throttle_time_ms,
            responses=[
                outcome_class(
                    *(done or found.get(_key(resource), lost)), resource.resource_type, resource.resource_name
                )
                for resource, done in zip(request.resources, outcomes)
            ],
        )
        return response

    if not remaining:
        return respond(response_class())
    services.controller.driver.submit(
        dataclasses.replace(request, resources=remaining),
        call.version,
        lambda decided: call.reply(respond(decided)),
        principal=call.principal,
        client_host=call.client_host,
        client_id=call.client_id,
        is_token_authenticated=call.is_token_authenticated,
    )
    return None


def _key(resource: ConfigsResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _checked(services: ConfigServices, call: Call, check: Check) -> list[tuple[ErrorCode, str | None] | None]:
    """Returns the outcome of each resource that is done; None for the others."""
    counts = Counter(map(_key, call.request.resources))
    outcomes: list[tuple[ErrorCode, str | None] | None] = []
    for resource in call.request.resources:
        try:
            if counts[_key(resource)] > 1:
                raise Rejected(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            names = [config.name for config in resource.configs]
            if len(set(names)) != len(names):
                raise Rejected(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            outcomes.append((ErrorCode.NONE, None) if check(services, call, resource) else None)
        except Rejected as rejected:
            outcomes.append((rejected.error, rejected.message))
    return outcomes


def reject_nulls(names: Iterable[str]) -> None:
    """`names`: the keys that came without a value that they need."""
    found = ", ".join(names)
    if found:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {found}")


def is_for_controller(resource_type: int) -> bool:
    if resource_type in (ResourceType.TOPIC, ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        return True
    if resource_type == ResourceType.BROKER:
        return False
    raise Rejected(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def broker_id_of(name: str, what: str = "Node") -> int:
    try:
        return int(name)
    except ValueError:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}") from None


def check_is_this_broker(node_id: int, name: str) -> None:
    """Checks that the name of a broker resource is this broker's id, or "" for all."""
    if name and broker_id_of(name) != node_id:
        words = f"Unexpected broker id, expected {node_id}, but received {name}"
        raise Rejected(ErrorCode.INVALID_REQUEST, words)


def stored_dynamic(image: MetadataImage, name: str) -> dict[str, str]:
    """Returns the broker values that are stored now and can be used."""
    stored = image.config(ResourceType.BROKER, name)
    return usable_dynamic_configs(stored, per_broker=bool(name), rejected=lambda *_: None)


def check_broker_values(config: BrokerConfig, name: str, configs: Mapping[str, str]) -> None:
    """Checks that this broker can take these values as all of its own (or, for the name "", as all defaults)."""
    try:
        after = validate_broker_change(config.values, configs, per_broker=bool(name))
        _check_listeners(config, after)
        for validate in config.validators:
            validate(after)
    except InvalidConfig as rejected:
        raise Rejected(ErrorCode.INVALID_REQUEST, str(rejected)) from None


def _check_listeners(config: BrokerConfig, after: BrokerValues) -> None:
    """Checks that new listeners are valid, and that the advertised ones stay (KIP-226)."""
    if after.get("listeners") == config.get("listeners"):
        return
    found = read_listeners(after)
    reported = {endpoint.name for endpoint in config.listeners.advertised}
    names = {endpoint.name for endpoint in (*found.brokers, *found.controllers)}
    if not reported <= names:
        raise InvalidConfig(
            f"Advertised listeners '{','.join(reported)}' must be a subset of listeners '{','.join(names)}'"
        )


# ---- at the active controller


def configs_to_alter(request: ConfigsRequest) -> int:
    """Returns the number of records that the controller writes for the request."""
    return sum(len(resource.configs) for resource in request.resources)


def authorized_changes(
    session: AuthorizationSession, request: ConfigsRequest, result_class: Callable[..., Message]
) -> Checked:
    """Takes out the resources whose configuration the client may not change."""
    counts = Counter(map(_key, request.resources))
    results: list[Message] = []
    kept: list[ConfigsResource] = []
    for resource in request.resources:
        kind, name = _key(resource)
        error = config_error(session, Operation.ALTER_CONFIGS, kind, name) if counts[kind, name] == 1 else None
        if error is None:
            kept.append(resource)
        else:
            words = WORDS.get(error) or f"Unexpected resource type {ResourceType.named(kind)}."
            results.append(result_class(error, words, kind, name))
    return without(request, "resources", kept, adding("responses", results))


def config_error(session: AuthorizationSession, operation: Operation, kind: int, name: str) -> ErrorCode | None:
    """Returns why the client may not do that with the configuration of a resource; None if it may.

    INVALID_REQUEST for a type of resource that has no rule.
    """
    if kind in (ResourceType.BROKER, ResourceType.CLIENT_METRICS):
        is_allowed, error = session.allows_on_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif kind == ResourceType.TOPIC:
        is_allowed = session.allows(operation, AclResourceType.TOPIC, name)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif kind == ResourceType.GROUP:
        is_allowed = session.allows(operation, AclResourceType.GROUP, name)
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        return ErrorCode.INVALID_REQUEST
    return None if is_allowed else error


# ---- loggers
#
# The process's loggers, by Kafka's names of levels: what the BROKER_LOGGER resource shows and changes (KIP-412).
#
# They are Python's. A change lasts as long as the process, and holds for every broker in it.
ROOT_LOGGER = "root"
_LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50, "OFF": 100}
LEVEL_NAMES = tuple(sorted(set(_LEVELS) - {"OFF"}))


def logger_levels() -> dict[str, str]:
    """The level at which each logger works, its own or inherited."""
    known = logging.root.manager.loggerDict
    found = {
        name: _level_name(logger.getEffectiveLevel())
        for name, logger in known.items()
        if isinstance(logger, logging.Logger)
    }
    return {**found, ROOT_LOGGER: _level_name(logging.root.level)}


def logger_exists(name: str) -> bool:
    return name == ROOT_LOGGER or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def set_logger_level(name: str, level: str) -> None:
    """`level` is one of LEVEL_NAMES."""
    _logger(name).setLevel(_LEVELS[level])


def unset_logger_level(name: str) -> None:
    """The logger works at its parent's level again."""
    _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT_LOGGER else logging.getLogger(name)


def _level_name(number: int) -> str:
    """The lowest of Kafka's levels that this one reaches."""
    return next((name for name, limit in _LEVELS.items() if number <= limit), "OFF")
