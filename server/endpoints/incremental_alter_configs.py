"""IncrementalAlterConfigs: changes of single keys (KIP-339, KIP-412).

Each change of a key is SET, DELETE (back to what it would be without), or, for a list, APPEND and SUBTRACT elements. A
resource is changed whole or not at all. A broker checks its own values and changes its own loggers; the controller does the
rest and keeps it.

Contract: `protocol/messages/incremental_alter_configs.py`.
"""

from __future__ import annotations

from ...metadata.acls import CLUSTER_NAME, Operation
from ...metadata.acls import ResourceType as AclResourceType
from ...metadata.configs import ConfigResourceType, appended, default_text, definition, is_list, subtracted
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_configs_results import AlterConfigsResourceResponse
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..access.authorization.requirements import Checked, Deciding, Each, Split
from ..access.authorization.sessions import AuthorizationSession
from ..controller.config_changes import (
    ConfigServices,
    RejectedResource,
    broker_id_of,
    change_configs,
    check_broker_values,
    check_is_this_broker,
    is_for_controller,
    reject_nulls,
    stored_dynamic,
)
from ..controller.config_decisions import authorized_changes, configs_to_alter
from ..controller.logger_levels import (
    LEVEL_NAMES,
    ROOT_LOGGER,
    logger_exists,
    set_logger_level,
    unset_logger_level,
)
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, LARGE_RESERVE, ApiEndpoint
from ..network.call import Call
from ..network.portions import TOGETHER, Portioning, by_resource

_LOGGERS = Each(Operation.ALTER_CONFIGS, AclResourceType.CLUSTER)
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_WORDS = {_APPEND: "append", _SUBTRACT: "subtract"}


def handle(
    services: ConfigServices, call: Call[IncrementalAlterConfigsRequest]
) -> IncrementalAlterConfigsResponse | None:
    return change_configs(services, call, _check, AlterConfigsResourceResponse, IncrementalAlterConfigsResponse)


def _check(
    services: ConfigServices, call: Call[IncrementalAlterConfigsRequest], resource: AlterConfigsResource
) -> bool:
    reject_nulls(c.name for c in resource.configs if c.config_operation != _DELETE and c.value is None)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        if _LOGGERS.denies(services.access.authorizer, call, CLUSTER_NAME):
            raise RejectedResource(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        _change_loggers(services, call, resource)
        return True
    if not is_for_controller(resource.resource_type):
        check_is_this_broker(services.node_id, resource.resource_name)
        configs = stored_dynamic(services.metadata.image, resource.resource_name)
        for config in resource.configs:
            _apply(configs, config)
        check_broker_values(services.config, resource.resource_name, configs)
    return False


def _apply(configs: dict[str, str], config: AlterableConfig) -> None:
    """Makes one change among the dynamic values of a broker."""
    name, operation = config.name, config.config_operation
    if operation == _SET:
        configs[name] = config.value or ""
    elif operation == _DELETE:
        configs.pop(name, None)
    elif operation in _WORDS:
        _check_is_list(name, operation)
        old = configs[name] if name in configs else default_text(ConfigResourceType.BROKER, name)
        change = appended if operation == _APPEND else subtracted
        configs[name] = change(old or "", config.value or "")
    else:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")


def _check_is_list(name: str, operation: int) -> None:
    key = definition(ConfigResourceType.BROKER).get(name)
    if key is None or key.dynamic_only:
        raise RejectedResource(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if not is_list(ConfigResourceType.BROKER, name):
        words = f"Config value {_WORDS[operation]} is not allowed for config key: {name}"
        raise RejectedResource(ErrorCode.INVALID_CONFIG, words)


def _change_loggers(
    services: ConfigServices, call: Call[IncrementalAlterConfigsRequest], resource: AlterConfigsResource
) -> None:
    node_id = broker_id_of(resource.resource_name)
    if node_id != services.node_id:
        words = f"Unexpected node id. Expected {services.node_id}, but received {node_id}"
        raise RejectedResource(ErrorCode.INVALID_REQUEST, words)
    for config in resource.configs:
        _check_logger(config)
    for config in () if call.request.validate_only else resource.configs:
        if config.config_operation == _SET:
            set_logger_level(config.name, config.value or "")
        else:
            unset_logger_level(config.name)


def _check_logger(config: AlterableConfig) -> None:
    name, operation = config.name, config.config_operation
    if operation not in (_SET, _DELETE):
        words = {_APPEND: "APPEND operation", _SUBTRACT: "SUBTRACT operation"}
        what = words.get(operation, f"Unknown operation type {operation}")
        raise RejectedResource(ErrorCode.INVALID_REQUEST, f"{what} is not allowed for the BROKER_LOGGER resource")
    if not logger_exists(name):
        raise RejectedResource(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == _SET and config.value not in LEVEL_NAMES:
        raise RejectedResource(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVEL_NAMES)}",
        )
    if operation == _DELETE and name == ROOT_LOGGER:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")


def _authorized(session: AuthorizationSession, request: IncrementalAlterConfigsRequest, on: Deciding) -> Checked:
    return authorized_changes(session, request, AlterConfigsResourceResponse)


ENDPOINT: ApiEndpoint[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(Split("ALTER_CONFIGS on each TOPIC, GROUP or CLUSTER", _authorized), _LOGGERS),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("resources",), ("responses",), TOGETHER, by_resource, first=8),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=configs_to_alter,
    log_reserve=LARGE_RESERVE,
)
