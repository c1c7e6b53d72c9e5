"""Each API's cost against its size: twice the request takes at most twice the time, and the loop stays responsive.

All arrays of all requests, and other sizes: `python -m tests.hostile.cost`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.hostile.cost_check import check, made_world, one_of_each_api
from tests.hostile.cost_probe import MeasuredBroker
from tests.hostile.cost_requests import Shape, World

pytestmark = pytest.mark.usefixtures("sockets")

#: Items of the largest requests compared; the test sends twice as many.
MOST_ITEMS = int(os.environ.get("ODRADEK_HOSTILE_ITEMS", "4000"))
SHAPES = list(one_of_each_api())


@pytest.fixture(scope="module")
def measured() -> Iterator[tuple[MeasuredBroker, World]]:
    with MeasuredBroker(**{"auto.create.topics.enable": False}) as broker:
        yield broker, made_world(broker)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_twice_the_items_take_at_most_twice_the_time_and_no_long_turn(
    measured: tuple[MeasuredBroker, World], shape: Shape
) -> None:
    finding = check(*measured, shape, MOST_ITEMS)
    print(finding)
    assert not finding.violations()
