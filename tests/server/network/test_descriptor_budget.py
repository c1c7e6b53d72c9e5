"""The division of a process's descriptors among connections of clients, brokers and controllers."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import ExitStack

import pytest
from odradek.server.network.descriptors import BROKERS, CLIENTS, CONTROLLERS, DescriptorBudget


class Node:
    """The identity of a broker."""


@pytest.mark.parametrize("other_nodes", [0, 2, 50, 5_000])
def test_each_class_of_connections_has_room_however_many_nodes_there_are(other_nodes: int) -> None:
    budget, node = DescriptorBudget(), Node()
    budget.measure()
    budget.peers_are(node, other_nodes)
    for kind in (CLIENTS, BROKERS, CONTROLLERS):
        budget.guarantee(kind)
    for kind in (CLIENTS, BROKERS, CONTROLLERS):
        assert budget.remaining(kind) >= budget.most_connections // 4


def test_a_broker_that_was_dropped_without_a_stop_keeps_no_descriptors() -> None:
    budget, node = DescriptorBudget(), Node()
    budget.measure()
    before = budget.most_connections
    budget.peers_are(node, 100)
    assert budget.most_connections < before
    del node
    gc.collect()
    budget.plan()
    assert budget.most_connections == before


def test_descriptors_that_are_open_cost_no_call_each() -> None:
    def calls() -> int:
        counted = [0]

        def count(_frame: object, event: str, _argument: object) -> None:
            counted[0] += event == "call"

        sys.setprofile(count)
        try:
            DescriptorBudget().measure()
        finally:
            sys.setprofile(None)
        return counted[0]

    before = calls()
    with ExitStack() as opened:
        for _ in range(100):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        assert calls() < before + 50
