"""AlterConfigs: the older form, replaced by IncrementalAlterConfigs (KIP-133).

The request has all values that the resource keeps: keys that it does not name return to their defaults. Broker loggers
cannot be changed by it.

Contract: `protocol/messages/alter_configs.py`.
"""

from __future__ import annotations

from ...protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse, LegacyAlterConfigsResource
from ...protocol.messages.alter_configs_results import AlterConfigsResourceResponse
from ..access.authorization.requirements import Checked, Deciding, Split
from ..access.authorization.sessions import AuthorizationSession
from ..controller.config_changes import (
    ConfigServices,
    change_configs,
    check_broker_values,
    check_is_this_broker,
    is_for_controller,
    reject_nulls,
)
from ..controller.config_decisions import authorized_changes, configs_to_alter
from ..controller.request_places import ACTIVE_CONTROLLER
from ..network.api_endpoint import CONTROLLER_ITEM_LIMIT, LARGE_RESERVE, ApiEndpoint
from ..network.call import Call
from ..network.portions import TOGETHER, Portioning, by_resource


def handle(services: ConfigServices, call: Call[AlterConfigsRequest]) -> AlterConfigsResponse | None:
    return change_configs(services, call, _check, AlterConfigsResourceResponse, AlterConfigsResponse)


def _check(services: ConfigServices, call: Call[AlterConfigsRequest], resource: LegacyAlterConfigsResource) -> bool:
    reject_nulls(config.name for config in resource.configs if config.value is None)
    if not is_for_controller(resource.resource_type):
        check_is_this_broker(services.node_id, resource.resource_name)
        configs = {config.name: config.value for config in resource.configs if config.value is not None}
        check_broker_values(services.config, resource.resource_name, configs)
    return False


def _authorized(session: AuthorizationSession, request: AlterConfigsRequest, on: Deciding) -> Checked:
    return authorized_changes(session, request, AlterConfigsResourceResponse)


ENDPOINT: ApiEndpoint[AlterConfigsRequest, AlterConfigsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(Split("ALTER_CONFIGS on each TOPIC, GROUP or CLUSTER", _authorized),),
    place=ACTIVE_CONTROLLER,
    portionings=(Portioning(("resources",), ("responses",), TOGETHER, by_resource, first=8),),
    most_items=CONTROLLER_ITEM_LIMIT,
    records_asked=configs_to_alter,
    log_reserve=LARGE_RESERVE,
)
