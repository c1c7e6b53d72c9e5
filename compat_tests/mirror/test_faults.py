"""Some rounds of faults: `python -m compat_tests.mirror.faults` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.faults.network import why_not
from compat_tests.java.tool import ToolHost
from compat_tests.mirror.dumped_logs import dumped
from compat_tests.mirror.faults import PARTITIONS, TOPIC, Rounds
from compat_tests.mirror.sides import Side

pytestmark = pytest.mark.slow

#: The faults of each cluster of sources, in turn.
_FAULTS = {
    ("odradek", 1): ["the mirror's disk is full", "the network is cut in a switch", "fail-over and reversal"],
    ("odradek", 3): ["leaders move at the source", "unclean election at the source"],
    ("apache", 3): ["unclean election at the source", "leaders move at the source"],
}


@pytest.fixture(autouse=True)
def a_network() -> None:
    if rejected := why_not():
        pytest.skip(rejected)


@pytest.mark.parametrize(("kind", "nodes"), list(_FAULTS))
def test_rounds_of_faults_lose_nothing(kind: str, nodes: int, tmp_path: Path, tools: ToolHost) -> None:
    with Rounds(tmp_path, 4, kind, nodes) as rounds:
        for number, fault in enumerate(_FAULTS[kind, nodes]):
            rounds.run(number, fault)
        for index in range(PARTITIONS):
            here, there = (
                dumped(tools, leader_directory(side, index), TOPIC, index) for side in (rounds.mirror, rounds.primary)
            )
            assert here == there and len(here) > 100


def leader_directory(side: Side, index: int) -> list[Path]:
    return [side.nodes[side.partitions(TOPIC)[index].leader_id].log_dir]
