"""Clients react alike when a leader or a coordinator moves between two brokers of Odradek and of Apache Kafka.

`moves_beside_apache.py` runs the kills as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.faults.moves_beside_apache import MOVES, ClusterSide, Move, both_clusters
from tests.testing.fault_table import Client, all_clients


@pytest.fixture(scope="module")
def clients(java_tools: None) -> Iterator[dict[str, Client]]:
    with all_clients() as found:
        yield found


@pytest.fixture(scope="module")
def sides(
    clients: dict[str, Client], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterSide, ClusterSide]]:
    with both_clusters(tmp_path_factory.mktemp("apache")) as found:
        for side in found:
            side.warm_up(clients)
        yield found


@pytest.mark.oracle
@pytest.mark.parametrize("move", [move for move in MOVES if not move.kills], ids=str)
def test_clients_follow_a_move_as_they_do_with_apache(
    sides: tuple[ClusterSide, ClusterSide], clients: dict[str, Client], move: Move
) -> None:
    for name, client in clients.items():
        here, there = (side.reaction(move, client, name) for side in sides)
        assert here == there, name
        assert here.outcome == "ok" and here.struck == 1, name
