"""IncrementalAlterConfigs (key 44): changes single keys of resources' configuration.

Set, delete, and for lists append and subtract (KIP-339). Checked whole for each resource, by `validate_only` without
effect. What is set is dynamic: in force at once where the key allows it.

Versions 0-1, flexible from 1.
"""

from __future__ import annotations

from ..schema import BOOL, INT8, INT32, STRING, Message, Request, array, message, struct, wire
from .alter_configs_results import AlterConfigsResourceResponse


@struct
class AlterableConfig(Message):
    name: str = wire(STRING)
    config_operation: int = wire(INT8)
    value: str | None = wire(STRING, nullable="0+")


@struct
class AlterConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[AlterableConfig] = wire(array(AlterableConfig))


@message("0-1", flexible="1+", key=44)
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    resources: list[AlterConfigsResource] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)


@message("0-1", flexible="1+", key=44)
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    responses: list[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))
