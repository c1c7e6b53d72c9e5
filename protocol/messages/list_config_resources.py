"""ListConfigResources (key 74): the names of what has configuration of its own.

No types asked for means all that there are: topics, brokers, loggers, client metrics, groups.

Versions 0-1, all flexible. Additions by version:
- 0: client metrics only (KIP-714)
- 1: types of resources (KIP-1142)
"""

from __future__ import annotations

from ..schema import INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@message("0-1", flexible="0+", key=74)
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    resource_types: list[int] = wire(array(INT8), "1+")


@struct
class ConfigResource(Message):
    resource_name: str = wire(STRING)
    resource_type: int = wire(INT8, "1+", default=16)


@message("0-1", flexible="0+", key=74)
class ListConfigResourcesResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    config_resources: list[ConfigResource] = wire(array(ConfigResource))
