"""The pause of the console's poller between two polls."""

from __future__ import annotations

import pytest
from odradek.console.cluster.poller import INTERVAL_S, rest_s


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.0, INTERVAL_S), (0.4, INTERVAL_S), (2.0, 8.0)])
def test_long_poll_is_followed_by_a_pause_of_four_times_its_length(took_s: float, pause_s: float) -> None:
    assert rest_s(took_s, is_idle=False) == pause_s


def test_poll_that_waited_for_a_broker_is_soon_followed_by_another() -> None:
    """A broker that hangs in the middle of a poll makes it 10 s and more, and counts as running until the next poll."""
    assert rest_s(12.0, is_idle=False) == rest_s(60.0, is_idle=False) == 15.0


def test_poller_without_viewers_pauses_for_half_a_minute() -> None:
    assert rest_s(0.1, is_idle=True) == rest_s(20.0, is_idle=True) == 30.0
