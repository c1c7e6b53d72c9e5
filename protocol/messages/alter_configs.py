"""AlterConfigs (key 33): replaces the whole configuration of resources.

Keys that a request does not name return to their defaults; new clients send IncrementalAlterConfigs. The broker checks
each resource as a whole. `validate_only` changes nothing.

Versions 0-2, flexible from 2.
"""

from __future__ import annotations

from ..schema import BOOL, INT8, INT32, STRING, Message, Request, array, message, struct, wire
from .alter_configs_results import AlterConfigsResourceResponse


@struct
class LegacyAlterableConfig(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")


@struct
class LegacyAlterConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[LegacyAlterableConfig] = wire(array(LegacyAlterableConfig))


@message("0-2", flexible="2+", key=33)
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    resources: list[LegacyAlterConfigsResource] = wire(array(LegacyAlterConfigsResource))
    validate_only: bool = wire(BOOL)


@message("0-2", flexible="2+", key=33)
class AlterConfigsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    responses: list[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))
