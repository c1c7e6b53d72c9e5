"""AlterConfigs (key 33): replaces the whole configuration of resources.

Keys that a request does not name return to their defaults; new clients send IncrementalAlterConfigs. The broker checks
each resource as a whole. `validate_only` changes nothing.

Versions 0-2, flexible from 2.
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, array, message, struct, wire


@struct
class AlterableConfig(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")


@struct
class AlterConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[AlterableConfig] = wire(array(AlterableConfig))


@message("0-2", flexible="2+", key=33)
class AlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)


@struct
class AlterConfigsResourceResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


@message("0-2", flexible="2+", key=33)
class AlterConfigsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    responses: list[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))
