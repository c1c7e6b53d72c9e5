"""The first batches of a transaction in a partition, which the broker verifies with the coordinator (KIP-890)."""

from __future__ import annotations

from ..scenario import ask, scenario
from ..setup_steps import fetched, topic
from .transactions import COMMIT, added, begun, ended, sent

SCENARIOS = [
    scenario(
        "Produce",
        "what was sent behind a refused batch is not written before it comes again",
        topic(),
        begun(),
        ask("Produce", **sent(0, b"a", b"b")),
        added(0),
        ask("Produce", **sent(2, b"c")),
        ask("Produce", **sent(0, b"a", b"b")),
        ask("Produce", **sent(2, b"c")),
        ask("DescribeProducers", topics=[{"name": "$t", "partition_indexes": [0]}]),
        fetched(),
        versions="3-11",
    ),
    scenario(
        "Produce",
        "a transaction may begin with any sequence, and then with lower ones only",
        topic(),
        begun(),
        added(0),
        ask("Produce", **sent(7, b"a")),
        ask("Produce", **sent(9, b"b")),
        ask("Produce", **sent(8, b"b")),
        ended(COMMIT),
        ask("Produce", **sent(9, b"c")),
        ask("Produce", **sent(8, b"b")),
        added(0),
        ask("Produce", **sent(9, b"c")),
        ask("Produce", **sent(8, b"b")),
        fetched(),
        versions="3-11",
    ),
    scenario(
        "Produce",
        "a transaction with an epoch of its own begins with sequence 0",
        topic(),
        begun(),
        ask("Produce", **sent(1, b"b")),
        ask("Produce", **sent(0, b"a")),
        ask("Produce", **sent(1, b"b")),
        ask("DescribeTransactions", transactional_ids=["$x"]),
        ask("DescribeProducers", topics=[{"name": "$t", "partition_indexes": [0]}]),
        fetched(),
        versions="12+",
    ),
]
