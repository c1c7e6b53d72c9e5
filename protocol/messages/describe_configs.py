"""DescribeConfigs (key 32): the configuration of topics, brokers, loggers, groups and client metrics.

Null keys ask for all. Each value comes with its source (topic, broker, cluster default, static file, built-in
default), whether it is read-only or secret (then null), and, when asked for, the whole chain of synonyms that it was
taken from (KIP-226).

Versions 1-4, flexible from 4. Additions by version:
- 1: sources and synonyms (KIP-226)
- 3: type and documentation of each key (KIP-569)
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class DescribeConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: list[str] | None = wire(array(STRING), nullable="0+")


@message("1-4", flexible="4+", key=32)
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    resources: list[DescribeConfigsResource] = wire(array(DescribeConfigsResource))
    include_synonyms: bool = wire(BOOL, "1+")
    include_documentation: bool = wire(BOOL, "3+")


@struct
class DescribeConfigsSynonym(Message):
    name: str = wire(STRING, "1+")
    value: str | None = wire(STRING, "1+", nullable="0+")
    source: int = wire(INT8, "1+")


@struct
class DescribeConfigsResourceResult(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, "1+", default=-1)
    is_sensitive: bool = wire(BOOL)
    synonyms: list[DescribeConfigsSynonym] = wire(array(DescribeConfigsSynonym), "1+")
    config_type: int = wire(INT8, "3+")
    documentation: str | None = wire(STRING, "3+", nullable="0+")


@struct
class DescribeConfigsResult(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[DescribeConfigsResourceResult] = wire(array(DescribeConfigsResourceResult))


@message("1-4", flexible="4+", key=32)
class DescribeConfigsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    results: list[DescribeConfigsResult] = wire(array(DescribeConfigsResult))
