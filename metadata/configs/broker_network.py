"""Broker configs for listeners, connections and requests."""

from __future__ import annotations

from .checks import at_least, list_of
from .inert import BUFFERS, OWN_TIMES, THREADS, WAITING
from .key import CLUSTER, INT, LIST, LONG, PER_BROKER, STRING, UNLIMITED, key

KEYS = (
    key("advertised.listeners", LIST, None, list_of(empty=False, null=True)),
    key("background.threads", INT, 10, at_least(1), CLUSTER, inert=THREADS),
    key("connections.max.idle.ms", LONG, 600_000),
    key("delete.records.purgatory.purge.interval.requests", INT, 1, inert=WAITING),
    key("early.start.listeners", LIST, None, list_of(null=True)),
    key("fetch.max.bytes", INT, 57_671_680, at_least(1024)),
    key("fetch.purgatory.purge.interval.requests", INT, 1000, inert=WAITING),
    key("inter.broker.listener.name", STRING),
    key(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        scope=PER_BROKER,
    ),
    key("listeners", LIST, ("PLAINTEXT://:9092",), list_of(empty=False), PER_BROKER),
    key("max.connection.creation.rate", INT, UNLIMITED, at_least(0), CLUSTER),
    key("max.connections", INT, UNLIMITED, at_least(0), CLUSTER),
    key("max.connections.per.ip", INT, UNLIMITED, at_least(0), CLUSTER),
    key("max.connections.per.ip.overrides", STRING, "", scope=CLUSTER),
    key("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0)),
    key("max.request.partition.size.limit", INT, 2000, at_least(1)),
    key("num.io.threads", INT, 8, at_least(1), CLUSTER, inert=THREADS),
    key("num.network.threads", INT, 3, at_least(1), CLUSTER, inert=THREADS),
    key("producer.purgatory.purge.interval.requests", INT, 1000, inert=WAITING),
    key("queued.max.request.bytes", LONG, -1),
    key("queued.max.requests", INT, 500, at_least(1), inert=BUFFERS),
    key("request.timeout.ms", INT, 30_000, inert=OWN_TIMES),
    key("socket.connection.setup.timeout.max.ms", LONG, 30_000, inert=OWN_TIMES),
    key("socket.connection.setup.timeout.ms", LONG, 10_000, inert=OWN_TIMES),
    key("socket.listen.backlog.size", INT, 50, at_least(1)),
    key("socket.receive.buffer.bytes", INT, 102_400),
    key("socket.request.max.bytes", INT, 104_857_600, at_least(1)),
    key("socket.send.buffer.bytes", INT, 102_400),
)
