"""Broker configs for metrics, telemetry, quotas and policies."""

from __future__ import annotations

from .checks import at_least, list_of
from .inert import COUNTERS, JAVA
from .key import CLASS, CLUSTER, INT, LIST, LONG, STRING, key

KEYS = (
    key("alter.config.policy.class.name", CLASS),
    key("client.quota.callback.class", CLASS),
    key("config.providers", LIST, (), list_of(), CLUSTER),
    key("create.topic.policy.class.name", CLASS),
    key("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), inert=JAVA),
    key("kafka.metrics.reporters", LIST, (), list_of(), inert=JAVA),
    key("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), list_of(), CLUSTER, inert=JAVA),
    key("metrics.num.samples", INT, 2, at_least(1), inert=COUNTERS),
    key("metrics.recording.level", STRING, "INFO", inert=COUNTERS),
    key("metrics.sample.window.ms", LONG, 30_000, at_least(1), inert=COUNTERS),
    key("quota.window.num", INT, 11, at_least(1)),
    key("quota.window.size.seconds", INT, 1, at_least(1)),
    key("telemetry.max.bytes", INT, 1_048_576, at_least(1)),
)
