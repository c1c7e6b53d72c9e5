"""Elections that the controller counts: a new leader, which may be node 0, and one outside of the ISR."""

from __future__ import annotations

import pytest
from odradek.protocol.internal.cluster_metadata import PartitionChangeRecord
from odradek.replication.controller.state import ElectionCount


@pytest.mark.parametrize(
    ("leader", "recovery", "leaders", "unclean"),
    [(0, -1, 1, 0), (2, -1, 1, 0), (0, 1, 1, 1), (2, 0, 1, 0), (-1, 1, 0, 0), (-2, 1, 0, 0), (-2, -1, 0, 0)],
)
def test_record_with_a_leader_is_an_election(leader: int, recovery: int, leaders: int, unclean: int) -> None:
    elections = ElectionCount()
    for number in (1, 2):
        elections.count(PartitionChangeRecord(0, bytes(16), leader=leader, leader_recovery_state=recovery))
        assert (elections.leaders, elections.unclean) == (number * leaders, number * unclean)
