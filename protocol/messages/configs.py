"""Configurations of topics, brokers, groups and other resources: description, changes, the resources that have any."""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, array, message, struct, wire

# DescribeConfigs (key 32): the configuration of topics, brokers, loggers, groups and client metrics.
#
# Null keys ask for all. Each value comes with its source (topic, broker, cluster default, static file, built-in
# default), whether it is read-only or secret (then null), and, when asked for, the whole chain of synonyms that it was
# taken from (KIP-226).
#
# Versions 1-4, flexible from 4. Additions by version:
# - 1: sources and synonyms (KIP-226)
# - 3: type and documentation of each key (KIP-569)


@struct
class DescribeConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: list[str] | None = wire(array(STRING), nullable="0+")


@message("1-4", flexible="4+", key=32)
class DescribeConfigsRequest(Message):
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


# AlterConfigs (key 33): replaces the whole configuration of resources.
#
# Keys that a request does not name return to their defaults; new clients send IncrementalAlterConfigs. The broker checks
# each resource as a whole. `validate_only` changes nothing.
#
# Versions 0-2, flexible from 2.


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
class AlterConfigsRequest(Message):
    resources: list[LegacyAlterConfigsResource] = wire(array(LegacyAlterConfigsResource))
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


# IncrementalAlterConfigs (key 44): changes single keys of resources' configuration.
#
# Set, delete, and for lists append and subtract (KIP-339). Checked whole for each resource, by `validate_only` without
# effect. What is set is dynamic: in force at once where the key allows it.
#
# Versions 0-1, flexible from 1.


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
class IncrementalAlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)


@message("0-1", flexible="1+", key=44)
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    responses: list[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))


# ListConfigResources (key 74): the names of what has configuration of its own.
#
# No types asked for means all that there are: topics, brokers, loggers, client metrics, groups.
#
# Versions 0-1, all flexible. Additions by version:
# - 0: client metrics only (KIP-714)
# - 1: types of resources (KIP-1142)


@message("0-1", flexible="0+", key=74)
class ListConfigResourcesRequest(Message):
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
