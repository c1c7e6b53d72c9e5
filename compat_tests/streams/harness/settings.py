"""Settings of applications with the streams protocol."""

from __future__ import annotations

PARTITIONS = 2


STREAMS = {
    "group.protocol": "streams",
    "processing.guarantee": "exactly_once_v2",
    # A killed instance's open transaction blocks readers for this long.
    "producer.transaction.timeout.ms": "3000",
}


#: A killed member's session expires soon, and so does its transaction.
IMPATIENT = {
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
