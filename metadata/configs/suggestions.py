"""Suggestions of the key that was probably meant by an unknown one."""

from __future__ import annotations

from .broker_values import broker_key
from .resources import BROKER, OWN, TOPIC

#: Less similar names have different meanings.
_LIKENESS = 0.75
#: No key is longer. A longer name takes time to compare and is similar to none.
_MOST_COMPARED = 100

#: Broker properties of Apache Kafka 0.8 to 3.9 that 4.0 has no more.
_REMOVED_TEXT = """
    advertised.host.name advertised.port broker.id.generation.enable control.plane.listener.name
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms delegation.token.master.key
    eligible.leader.replicas.enable group.coordinator.new.enable host.name inter.broker.protocol.version
    kafka.csv.metrics.dir kafka.csv.metrics.reporter.enabled leader.imbalance.per.broker.percentage
    log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
    offsets.commit.required.acks port quota.consumer.default quota.producer.default replica.lag.max.messages
    reserved.broker.max.id unstable.metadata.versions.enable
"""
_REMOVED = frozenset(_REMOVED_TEXT.split())
_REMOVED_PREFIXES = ("zookeeper.", "password.encoder.")


def is_removed(name: str) -> bool:
    """Returns whether an earlier version of Kafka has this property of a broker, and 4.0 does not."""
    return name in _REMOVED or name.startswith(_REMOVED_PREFIXES)


def suggestion(name: str) -> str:
    """Returns `, did you mean X?` for an unknown property of a broker; "" if no key is similar."""
    meant = _respelled(name) or _default_of_topics(name) or _most_alike(name)
    return f", did you mean {meant}?" if meant else ""


def _respelled(name: str) -> str | None:
    """Returns the key for another spelling: NUM_PARTITIONS, num-partitions."""
    spelled = name.strip().lower().replace("_", ".").replace("-", ".")
    return spelled if broker_key(spelled) is not None else None


def _default_of_topics(name: str) -> str | None:
    """Returns the broker's key for the default of a topic's key."""
    key = TOPIC.get(name)
    return key.broker if key is not None else None


def _most_alike(name: str) -> str | None:
    from difflib import get_close_matches

    found = get_close_matches(name[:_MOST_COMPARED].lower(), [*BROKER, *OWN], n=1, cutoff=_LIKENESS)
    return found[0] if found else None
