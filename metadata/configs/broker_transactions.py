"""Broker configs for transactions."""

from __future__ import annotations

from .checks import at_least
from .inert import BUFFERS, TWO_PHASE_COMMIT
from .key import BOOLEAN, CLUSTER, INT, SHORT, key

KEYS = (
    key("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0)),
    key("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1)),
    key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, at_least(1)),
    key("transaction.max.timeout.ms", INT, 900_000, at_least(1)),
    key("transaction.partition.verification.enable", BOOLEAN, True, scope=CLUSTER),
    key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, at_least(1)),
    key("transaction.state.log.load.buffer.size", INT, 5_242_880, at_least(1), inert=BUFFERS),
    key("transaction.state.log.min.isr", INT, 2, at_least(1)),
    key("transaction.state.log.num.partitions", INT, 50, at_least(1)),
    key("transaction.state.log.replication.factor", SHORT, 3, at_least(1)),
    key("transaction.state.log.segment.bytes", INT, 104_857_600, at_least(1)),
    key("transaction.two.phase.commit.enable", BOOLEAN, False, inert=TWO_PHASE_COMMIT),
    key("transactional.id.expiration.ms", INT, 604_800_000, at_least(1)),
)
