"""AlterConfigs (key 33), versions 0-2: the older form, replaced by IncrementalAlterConfigs (KIP-133).

The request has all values that the resource keeps: keys that it does not name return to their defaults. Broker loggers
cannot be changed by it.
"""

from __future__ import annotations

from ...protocol.messages.configs import AlterConfigsRequest, AlterConfigsResourceResponse, LegacyAlterConfigsResource
from ...protocol.schema import Message
from ..access.authorization.requirements import Checked, Deciding, Split
from ..access.authorization.sessions import AuthorizationSession
from ..controller.config_changes import (
    ConfigServices,
    authorized_changes,
    change_configs,
    check_broker_values,
    check_is_this_broker,
    configs_to_alter,
    is_for_controller,
    reject_nulls,
)
from ..controller.driver import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, LARGE_RESERVE, TOGETHER, ApiEndpoint, Portioning, by_resource
from ..network.call import Call


def handle(services: ConfigServices, call: Call) -> Message | None:
    return change_configs(services, call, _check, AlterConfigsResourceResponse)


def _check(services: ConfigServices, call: Call, resource: LegacyAlterConfigsResource) -> bool:
    reject_nulls(config.name for config in resource.configs if config.value is None)
    if not is_for_controller(resource.resource_type):
        check_is_this_broker(services.node_id, resource.resource_name)
        configs = {config.name: config.value for config in resource.configs if config.value is not None}
        check_broker_values(services.config, resource.resource_name, configs)
    return False


def _authorized(session: AuthorizationSession, request: AlterConfigsRequest, on: Deciding) -> Checked:
    return authorized_changes(session, request, AlterConfigsResourceResponse)


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(Split("ALTER_CONFIGS on each TOPIC, GROUP or CLUSTER", _authorized),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("resources",), ("responses",), TOGETHER, by_resource, first=8),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=configs_to_alter,
    log_reserve=LARGE_RESERVE,
)
