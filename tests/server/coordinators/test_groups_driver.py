"""Assignment of groups to shards, and the monotonic clock of coordinators."""

from __future__ import annotations

import asyncio

import odradek
import pytest
from odradek.server.coordinators.coordinator_driver import MAX_REMEMBERED_CHARS, REMEMBERED_GROUPS
from odradek.server.coordinators.java_hash import java_hash
from odradek.server.coordinators.monotonic_clock import MonotonicClock


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("my-consumer-group", 1_513_705_513),
        # The hash of this name is the smallest int, which has no absolute value; Kafka takes 0.
        ("polygenelubricants", 0),
        # Outside the basic plane: two UTF-16 units.
        ("\N{GRINNING FACE}", 1_772_899),
    ],
)
def test_a_group_hashes_as_in_java(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.usefixtures("sockets")
async def test_partitions_of_few_and_short_ids_are_cached() -> None:
    async with odradek.Broker() as broker:
        driver = broker.server.services.coordinators.groups
        long = "g" * 32_767
        assert driver.partition_for(long) == java_hash(long) % driver._partition_count
        for number in range(2 * REMEMBERED_GROUPS):
            driver.partition_for(f"group-{number}")
        assert 0 < len(driver._partition_of) <= REMEMBERED_GROUPS
        assert max(map(len, driver._partition_of)) <= MAX_REMEMBERED_CHARS


async def test_the_clock_goes_on_when_the_time_of_day_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, loop_time = 1_000_000, 50.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: loop_time)
    clock = MonotonicClock(lambda: wall)
    assert clock() == 1_000_000
    wall, loop_time = 1_000_500, 50.5
    assert clock() == 1_000_500
    loop_time = 51.0  # the time of day stands still
    assert clock() == 1_001_000
    loop_time = 50.5
    clock.restart()
    assert clock() == 1_000_500
    wall, loop_time = 500_000, 51.5  # the time of day is set back, and a second passes
    assert 1_000_500 < clock() <= 1_001_500
    wall, loop_time = 2_000_000, 52.5  # the time of day is corrected
    assert clock() == 2_000_000
