"""The tally: counts over all topics of a poll, without their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin.readings import partition_states
from ...admin.replicas import ReplicaCounts
from .model import BrokerRow, Snapshot, TopicFacts, TopicRow

if TYPE_CHECKING:
    from ...admin.nodes import Broker
    from ...admin.topics import Topic


class Tally:
    """Counts over all topics, without keeping their partitions. Rows that are as they were stay the same objects."""

    def __init__(self, rates: dict[str, float], facts: dict[str, TopicFacts], before: Snapshot) -> None:
        self.counts = ReplicaCounts()
        self.rows: list[TopicRow] = []
        self._rates = rates
        self._facts = facts
        self._before = before

    def add(self, topic: Topic) -> None:
        counts = self.counts
        count, replicas = len(topic.partitions), max((len(one.replica_nodes) for one in topic.partitions), default=0)
        short, leaderless = counts.under_replicated, counts.without_leader
        counts.add(partition_states([topic]))
        short, leaderless = counts.under_replicated - short, counts.without_leader - leaderless
        name = topic.name
        if self.rows and self.rows[-1].name == name:  # the rest of a topic that did not fit the page before
            begun = self.rows.pop()
            count, short = count + begun.partitions, short + begun.under_replicated
            leaderless, replicas = leaderless + begun.without_leader, max(replicas, begun.replicas)
        rate, facts = self._rates.get(name), self._facts.get(name)
        row = TopicRow(name, count, replicas, short, leaderless, bool(topic.is_internal), rate, facts)
        known = self._before.topic(name)
        if known is not None:
            row = known if known == row else row._replace(name=known.name)
        self.rows.append(row)

    def take(self, facts: dict[str, TopicFacts]) -> None:
        """Facts that were read after the rows."""
        self.rows = [
            one if facts.get(one.name) == one.facts else one._replace(facts=facts[one.name]) for one in self.rows
        ]

    def brokers(self, described: list[Broker], silent: set[int]) -> tuple[BrokerRow, ...]:
        return tuple(
            BrokerRow(
                one.broker_id,
                one.host,
                one.port,
                one.rack,
                bool(one.is_fenced),
                self.counts.leads[one.broker_id],
                self.counts.holds[one.broker_id],
                self.counts.lacks[one.broker_id],
                one.broker_id in silent,
            )
            for one in sorted(described, key=lambda one: int(one.broker_id))
        )
