"""Validation of dynamic configuration changes on a running broker (KIP-226).

A thread count may change to between half and double of its value, as in Kafka. Here these threads do no work.
"""

from __future__ import annotations

from collections.abc import Mapping

from .broker_rules import validate_broker_configs
from .broker_values import BrokerValues
from .dynamic import validate_dynamic_names
from .values import InvalidConfig

_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)


def validate_broker_change(current: BrokerValues, configs: Mapping[str, str], *, per_broker: bool) -> BrokerValues:
    """Returns the values after `configs` replaces this broker's dynamic values (`per_broker`) or the cluster-wide
    default.

    Raises InvalidConfig.
    """
    validate_dynamic_names(configs, per_broker=per_broker)
    if per_broker:
        after = BrokerValues(current.static, current.dynamic_default, configs)
    else:
        after = BrokerValues(current.static, configs, current.dynamic_broker)
    validate_broker_configs(after, before="requirement failed: ")
    for broken in (*_thread_counts(current, after), _cleaner_threads(current, after)):
        if broken:
            why = f"org.apache.kafka.common.config.ConfigException: {broken}"
            raise InvalidConfig(f"Invalid value {why} for configuration Invalid dynamic configuration")
    return after


def _thread_counts(current: BrokerValues, after: BrokerValues) -> list[str]:
    broken = []
    for name in _THREADS:
        old, new = current.get(name), after.get(name)
        assert isinstance(old, int)
        assert isinstance(new, int)
        failed = f"Dynamic thread count update validation failed for {name}={new}"
        if new != old and new < old // 2:
            broken.append(f"{failed}, value should be at least half the current value {old}")
        elif new != old and new > old * 2:
            broken.append(f"{failed}, value should not be greater than double the current value {old}")
    return broken


def _cleaner_threads(current: BrokerValues, after: BrokerValues) -> str | None:
    old, new = current.get("log.cleaner.threads"), after.get("log.cleaner.threads")
    assert isinstance(old, int)
    assert isinstance(new, int)
    if new < 1:
        return "Log cleaner threads should be at least 1"
    if new < old // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {old}"
    if new > old * 2:
        return f"Log cleaner threads cannot be increased to more than double the current value {old}"
    return None
