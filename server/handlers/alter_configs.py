"""AlterConfigs (KIP-133), versions 0-2: the older form, replaced by IncrementalAlterConfigs.

The request has all values that the resource keeps: keys that it does not name return to their defaults. Broker loggers
cannot be changed by it.
"""

from __future__ import annotations

from ...protocol.messages.alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from ...protocol.schema import Message
from ..api.config_changes import (
    change_configs,
    check_broker_values,
    check_is_this_broker,
    is_for_controller,
    reject_nulls,
)
from ..network.call import Call
from ..services import NodeServices


def handle(services: NodeServices, call: Call) -> Message | None:
    return change_configs(services, call, _check, AlterConfigsResourceResponse)


def _check(services: NodeServices, call: Call, resource: AlterConfigsResource) -> bool:
    reject_nulls(config.name for config in resource.configs if config.value is None)
    if not is_for_controller(resource.resource_type):
        check_is_this_broker(services.node_id, resource.resource_name)
        configs = {config.name: config.value for config in resource.configs if config.value is not None}
        check_broker_values(services.config, resource.resource_name, configs)
    return False
