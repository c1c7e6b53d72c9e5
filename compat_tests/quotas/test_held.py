"""A librdkafka client keeps to its quota while a second client loses nothing, in a few seconds.

`python -m compat_tests.quotas` measures a minute, with all clients. Here there are three windows of a second. Kafka counts
two of them, and a burst leaves after three, so a client gets at least two thirds of its quota. A busy machine may change
this by a fifth, or disturb a measurement altogether.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.quotas.held import QUOTA, WHATS, Outcome, measure

#: Other processes may disturb one measurement, and not all of them.
_MEASUREMENTS = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    with OdradekProcess(tmp_path_factory.mktemp("quotas"), {**SINGLE_NODE, "quota.window.num": "3"}) as running:
        assert isinstance(running, OdradekProcess)
        yield running


@pytest.mark.parametrize("what", WHATS)
def test_a_client_gets_its_quota_and_another_one_loses_nothing(
    broker: OdradekProcess, what: str, tmp_path: Path
) -> None:
    outcomes: list[Outcome] = []
    while not any(map(is_fair, outcomes)):
        assert len(outcomes) < _MEASUREMENTS, outcomes
        outcomes.append(measure(broker.bootstrap, "librdkafka", what, tmp_path, seconds=6, warm_s=3, free=500_000))


def is_fair(outcome: Outcome) -> bool:
    return 2 / 3 * 0.8 * QUOTA < outcome.held < 1.2 * QUOTA and outcome.free > 0.8 * outcome.offered
