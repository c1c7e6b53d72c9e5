"""Plans of `odradek reassign` balance counts, bytes and leaders, and keep racks apart."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from odradek.admin.balance import Balance
from odradek.admin.places import Place


def loads(placement: dict[Place, list[int]], brokers: range) -> tuple[list[int], list[int]]:
    held = Counter(node for nodes in placement.values() for node in nodes)
    leads = Counter(nodes[0] for nodes in placement.values())
    return [held[node] for node in brokers], [leads[node] for node in brokers]


@pytest.mark.parametrize("seed", range(20))
def test_plan_is_even_and_spreads_over_racks(seed: int) -> None:
    rng, brokers = random.Random(seed), range(1, 7)
    racks = {node: f"rack-{node % 3}" for node in brokers}
    before = {("orders", index): rng.sample([1, 2, 3, 4], 3) for index in range(24)}
    sizes = {place: rng.randrange(1, 1000) for place in before}
    after = Balance(before, racks, sizes).plan()
    held, leads = loads(after, brokers)
    assert max(held) - min(held) <= 1
    assert max(leads) - min(leads) <= 1
    assert all(len(set(nodes)) == 3 for nodes in after.values())
    assert all(len({racks[node] for node in nodes}) == 3 for nodes in after.values())
    weights = Counter({node: sum(sizes[place] for place, nodes in after.items() if node in nodes) for node in brokers})
    assert max(weights.values()) - min(weights.values()) <= max(sizes.values())


def test_even_placement_stays() -> None:
    before = {("orders", index): [1 + index % 3, 1 + (index + 1) % 3] for index in range(6)}
    assert Balance(before, {1: None, 2: None, 3: None}, {}).plan() == before


def test_brokers_that_are_left_out_lose_all_replicas() -> None:
    before = {("orders", index): [1, 2] for index in range(4)}
    after = Balance(before, {2: None, 3: None}, {}).plan()
    assert all(set(nodes) == {2, 3} for nodes in after.values())
    with pytest.raises(ValueError, match="has 2 replicas, and only 1"):
        Balance(before, {3: None}, {}).plan()
