"""Configs of topics, brokers and their loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

from ..protocol.errors import ErrorCode
from ..protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult
from ..protocol.messages.list_config_resources import ListConfigResourcesRequest
from .errors import check
from .session import Admin

#: The name of the resource that stands for all brokers.
ALL_BROKERS = ""

#: Topics that are described in one request.
_AT_ONCE = 1000
#: Names of the types of values, by their number.
_TYPES = ("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")


class Kind(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


#: Sources of values that a resource has itself, by kind of the resource.
_OWN_SOURCES = {
    Kind.TOPIC: Source.DYNAMIC_TOPIC_CONFIG,
    Kind.BROKER: Source.DYNAMIC_BROKER_CONFIG,
    Kind.BROKER_LOGGER: Source.DYNAMIC_BROKER_LOGGER_CONFIG,
    Kind.CLIENT_METRICS: Source.DYNAMIC_CLIENT_METRICS_CONFIG,
    Kind.GROUP: Source.DYNAMIC_GROUP_CONFIG,
}


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """`config_source`: a name of `Source`. `config_type` is None from brokers before Apache Kafka 2.6."""

    value: str | None
    config_source: str
    read_only: bool
    is_sensitive: bool
    config_type: str | None
    synonyms: list[ConfigSynonym] = field(default_factory=list)


def describe_configs(admin: Admin, kind: Kind, name: str) -> dict[str, ConfigValue]:
    """All configs of a resource, by key. Raises ResponseError for one that does not exist or may not be seen."""
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True, include_documentation=False)
    (result,) = admin.repeated(lambda: admin.ask(request, node_of(kind, name))).results
    check(subject_of(kind, name), result.error_code, result.error_message)
    return _values(result)


def describe_topic_configs(
    admin: Admin, names: Sequence[str], keys: Sequence[str], *, without_denied: bool = False
) -> dict[str, dict[str, ConfigValue]]:
    """These keys of several topics, by topic; without topics that do not exist. Raises ResponseError for one whose configs
    may not be seen, or `without_denied` leaves it out.
    """
    asked = [
        DescribeConfigsResource(resource_type=Kind.TOPIC, resource_name=name, configuration_keys=list(keys))
        for name in names
    ]
    found: dict[str, dict[str, ConfigValue]] = {}
    for result in _results(admin, asked):
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if without_denied and result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            continue
        check(subject_of(Kind.TOPIC, result.resource_name), result.error_code, result.error_message)
        found[result.resource_name] = _values(result)
    return found


def _results(admin: Admin, resources: Sequence[DescribeConfigsResource]) -> Iterator[DescribeConfigsResult]:
    for start in range(0, len(resources), _AT_ONCE):
        some = list(resources[start : start + _AT_ONCE])
        request = DescribeConfigsRequest(resources=some, include_synonyms=False, include_documentation=False)
        yield from admin.repeated(partial(admin.ask, request)).results


def own_values(admin: Admin, kind: Kind, name: str) -> dict[str, ConfigValue]:
    """The configs that a resource has itself; the others are defaults of its cluster. Raises ResponseError as
    `describe_configs` does.
    """
    is_of_all = kind is Kind.BROKER and name == ALL_BROKERS
    own = Source.DYNAMIC_DEFAULT_BROKER_CONFIG if is_of_all else _OWN_SOURCES[kind]
    return {key: value for key, value in describe_configs(admin, kind, name).items() if value.config_source == own.name}


def own_configs(admin: Admin, name: str) -> dict[str, str]:
    """The values that a topic has itself; without those that no broker shows, of keys that the brokers do not know."""
    return {key: one.value for key, one in own_values(admin, Kind.TOPIC, name).items() if one.value is not None}


def list_config_resources(admin: Admin, kind: Kind) -> list[str]:
    """The names of resources that have configs. Raises NotSupported from brokers before Apache Kafka 3.7."""
    response = admin.repeated(lambda: admin.ask(ListConfigResourcesRequest(resource_types=[kind])))
    check("config resources", response.error_code)
    return sorted(one.resource_name for one in response.config_resources if one.resource_type == kind)


def _values(result: DescribeConfigsResult) -> dict[str, ConfigValue]:
    return {
        one.name: ConfigValue(
            one.value,
            _source(one.config_source),
            one.read_only,
            one.is_sensitive,
            _TYPES[one.config_type] if 0 < one.config_type < len(_TYPES) else None,
            [ConfigSynonym(each.name, each.value, _source(each.source)) for each in one.synonyms],
        )
        for one in result.configs
    }


def _source(number: int) -> str:
    known: dict[int, Source] = {one.value: one for one in Source}
    return known.get(number, Source.UNKNOWN).name


def node_of(kind: Kind, name: str) -> int | None:
    """The broker that has the configs: its own, and those of its loggers, only itself."""
    return int(name) if kind in (Kind.BROKER, Kind.BROKER_LOGGER) and name != ALL_BROKERS else None


def subject_of(kind: Kind, name: str) -> str:
    if kind is Kind.BROKER and name == ALL_BROKERS:
        return "configs of all brokers"
    return f"{kind.name.lower()} {name}"
