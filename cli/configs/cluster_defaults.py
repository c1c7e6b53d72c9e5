"""Configs of all brokers of a cluster: those of `config get|set broker default`, `--entity-default` of Kafka's tools.

kafka-python takes brokers' configs by their ids only, so the requests are odradek.protocol's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..client.admin_calls import check
from ..client.wire_requests import ask

if TYPE_CHECKING:
    from ...protocol.messages.describe_configs import DescribeConfigsResponse
    from ...protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
    from ..client.admin import AdminClient, ConfigValue


#: The name that stands for all brokers; a broker's own is a number.
DEFAULT = "default"
_BROKER = 4
_OPERATIONS = {"SET": 0, "DELETE": 1, "APPEND": 2, "SUBTRACT": 3}


def cluster_defaults(admin: AdminClient) -> dict[str, ConfigValue]:
    """The configs that are set for all brokers, as `config_values` gives those of one."""
    from kafka.admin import ConfigSourceType, ConfigType

    from ...protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(resource_type=_BROKER, resource_name="", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    response: DescribeConfigsResponse = ask(admin, request)
    (result,) = response.results
    check("configs of all brokers", result.error_code, result.error_message)
    return {
        one.name: {
            "value": one.value,
            "config_source": ConfigSourceType(one.config_source).name,
            "is_sensitive": one.is_sensitive,
            "read_only": one.read_only,
            "config_type": ConfigType(one.config_type).name,
        }
        for one in result.configs
    }


def alter_cluster_defaults(admin: AdminClient, changes: Mapping[str, tuple[str, str | None]], *, dry_run: bool) -> None:
    """Sets, deletes, appends to or subtracts from configs of all brokers. Raises CommandError."""
    from ...protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    entries = [
        AlterableConfig(name=key, config_operation=_OPERATIONS[word], value=value)
        for key, (word, value) in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=entries)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry_run)
    response: IncrementalAlterConfigsResponse = ask(admin, request)
    (result,) = response.responses
    check("configs of all brokers", result.error_code, result.error_message)
