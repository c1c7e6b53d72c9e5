"""A broker's own checks of a request that changes configurations, before the controller handles the rest.

Resources that a request names twice, or with a key twice or without a value, are rejected here, one by one. The broker
checks its own values, since only it can determine their effect; its loggers are changed only here. The remaining
resources go to the controller, and the results are joined in the order of the request.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union

from ...metadata.configs import (
    BrokerValues,
    ConfigResourceType,
    InvalidConfig,
    usable_dynamic_configs,
    validate_broker_change,
)
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..access.node_tls import StoresNotRead
from ..config.broker_config import BrokerConfig
from ..config.listeners import read_listeners
from ..network.call import Call

if TYPE_CHECKING:
    from ...protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse, LegacyAlterableConfig
    from ...protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from ..access.subsystem import AccessSubsystem
    from ..runtime.metadata_cache import MetadataCache
    from ..runtime.node import Node
    from .subsystem import ControllerSubsystem

AlterConfigsResult = Union["AlterConfigsResponse", "IncrementalAlterConfigsResponse"]
ConfigsRequest = TypeVar("ConfigsRequest", "AlterConfigsRequest", "IncrementalAlterConfigsRequest")
ConfigsResponse = TypeVar("ConfigsResponse", bound=AlterConfigsResult)


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
    def node(self) -> Node: ...
    @property
    def access(self) -> AccessSubsystem: ...


class ConfigsResource(Protocol):
    """A resource in a request of AlterConfigs or IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[LegacyAlterableConfig | AlterableConfig]: ...


#: Checks one resource of a request. Returns True when it is done, False when the controller handles it. Raises Rejected.
Check = Callable[[ConfigServices, Call[ConfigsRequest], Any], bool]


class RejectedResource(Exception):
    """The validation error of one resource of a request; it does not affect the others."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def change_configs(
    services: ConfigServices,
    call: Call[ConfigsRequest],
    check: Check[ConfigsRequest],
    outcome_class: Callable[..., Message],
    response_class: Callable[..., ConfigsResponse],
) -> ConfigsResponse | None:
    """Handles AlterConfigs or IncrementalAlterConfigs; `outcome_class` is what the response has one of per resource."""
    request = call.request
    answered: Call = call
    try:
        outcomes = _checked(services, call, check)
    except StoresNotRead as missing:  # keys and certificates, which a thread reads

        def again(_: object) -> None:
            response = change_configs(services, call, check, outcome_class, response_class)
            if response is not None:
                answered.reply(response)

        services.node.pools.cpu.run_then(missing.read, again)
        return None
    remaining = [resource for resource, done in zip(request.resources, outcomes) if done is None]

    def respond(decided: AlterConfigsResult) -> ConfigsResponse:
        found = {(r.resource_type, r.resource_name): (r.error_code, r.error_message) for r in decided.responses}
        lost = ErrorCode.UNKNOWN_SERVER_ERROR, None
        return response_class(
            throttle_time_ms=decided.throttle_time_ms,
            responses=[
                outcome_class(*(done or found.get(key(resource), lost)), resource.resource_type, resource.resource_name)
                for resource, done in zip(request.resources, outcomes)
            ],
        )

    if not remaining:
        return respond(response_class())
    services.controller.driver.submit(
        dataclasses.replace(request, resources=remaining),
        call.version,
        lambda decided: answered.reply(respond(decided)),
        principal=call.principal,
        client_host=call.client_host,
        client_id=call.client_id,
        is_token_authenticated=call.is_token_authenticated,
    )
    return None


def key(resource: ConfigsResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _checked(
    services: ConfigServices, call: Call[ConfigsRequest], check: Check[ConfigsRequest]
) -> list[tuple[ErrorCode, str | None] | None]:
    """Returns the outcome of each resource that is done; None for the others."""
    counts = Counter(map(key, call.request.resources))
    outcomes: list[tuple[ErrorCode, str | None] | None] = []
    for resource in call.request.resources:
        try:
            if counts[key(resource)] > 1:
                raise RejectedResource(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            names = [config.name for config in resource.configs]
            if len(set(names)) != len(names):
                raise RejectedResource(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            outcomes.append((ErrorCode.NONE, None) if check(services, call, resource) else None)
        except RejectedResource as rejected:
            outcomes.append((rejected.error, rejected.message))
    return outcomes


def reject_nulls(names: Iterable[str]) -> None:
    """`names`: the keys that came without a value that they need."""
    found = ", ".join(names)
    if found:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {found}")


def is_for_controller(resource_type: int) -> bool:
    if resource_type in (ConfigResourceType.TOPIC, ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP):
        return True
    if resource_type == ConfigResourceType.BROKER:
        return False
    raise RejectedResource(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def broker_id_of(name: str, what: str = "Node") -> int:
    try:
        return int(name)
    except ValueError:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {name}") from None


def check_is_this_broker(node_id: int, name: str) -> None:
    """Checks that the name of a broker resource is this broker's id, or "" for all."""
    if name and broker_id_of(name) != node_id:
        words = f"Unexpected broker id, expected {node_id}, but received {name}"
        raise RejectedResource(ErrorCode.INVALID_REQUEST, words)


def stored_dynamic(image: MetadataImage, name: str) -> dict[str, str]:
    """Returns the broker values that are stored now and can be used."""
    stored = image.config(ConfigResourceType.BROKER, name)
    return usable_dynamic_configs(stored, per_broker=bool(name), rejected=lambda *_: None)


def check_broker_values(config: BrokerConfig, name: str, configs: Mapping[str, str]) -> None:
    """Checks that this broker can take these values as all of its own (or, for the name "", as all defaults)."""
    try:
        after = validate_broker_change(config.values, configs, per_broker=bool(name))
        _check_listeners(config, after)
        for validate in config.validators:
            validate(after)
    except InvalidConfig as rejected:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, str(rejected)) from None


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
