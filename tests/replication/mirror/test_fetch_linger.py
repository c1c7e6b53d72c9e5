"""The pause between two Fetches of a link, in simulated time, for generated times of records."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from odradek.replication.mirror.fetch_linger import MOST_REST_MS, FetchLinger

LINGER_MS = 20
#: The source lets a Fetch wait for so long.
MOST_WAIT_MS = 500

#: Times between records: bursts, records around the pause, and silence.
gaps = st.lists(st.sampled_from([0, 1, 3, 19, 20, 21, 40, 499, 2_000]) | st.integers(0, 60), min_size=1, max_size=60)


def follow(arrivals: list[int], linger_ms: int, most_records: int = 1 << 30) -> tuple[list[float], list[float]]:
    """Fetches records that arrive at these times, at most `most_records` with each Fetch. Returns the times of the Fetches,
    and of each record's response.
    """
    linger = FetchLinger(lambda: linger_ms)
    sent: list[float] = []
    received: list[float] = []
    now_ms = 0.0
    while len(received) < len(arrivals):
        linger.sent(now_ms)
        sent.append(now_ms)
        now_ms = min(now_ms + MOST_WAIT_MS, max(now_ms, arrivals[len(received)]))
        there = sum(arrival <= now_ms for arrival in arrivals) - len(received)
        received += [now_ms] * min(there, most_records)
        now_ms += linger.pause_ms(now_ms, is_urgent=there > most_records)
    return sent, received


def times(found: list[int]) -> list[int]:
    return [sum(found[: count + 1]) for count in range(len(found))]


@given(gaps, st.sampled_from([0, 1, LINGER_MS, 1000]))
def test_fetches_are_so_far_apart_and_no_record_waits_longer(found: list[int], linger_ms: int) -> None:
    arrivals = times(found)
    sent, received = follow(arrivals, linger_ms)
    assert all(later - earlier >= linger_ms for earlier, later in pairwise(sent))
    assert all(0 <= late - arrival <= linger_ms for arrival, late in zip(arrivals, received, strict=True))


@given(st.lists(st.integers(LINGER_MS, 3_000), min_size=1, max_size=40))
def test_records_that_come_less_often_are_received_as_they_arrive(found: list[int]) -> None:
    arrivals = times(found)
    assert follow(arrivals, LINGER_MS)[1] == arrivals


@given(gaps)
def test_first_record_after_silence_is_received_as_it_arrives(found: list[int]) -> None:
    arrivals = times(found)
    arrivals.append(arrivals[-1] + 2 * LINGER_MS)
    assert follow(arrivals, LINGER_MS)[1][-1] == arrivals[-1]


@given(st.integers(2, 200), st.integers(1, 7))
def test_link_that_catches_up_never_lingers(records: int, most_records: int) -> None:
    sent, received = follow([0] * records, LINGER_MS, most_records)
    assert set(sent) == {0.0} and set(received) == {0.0}


@given(st.floats(0, 5_000))
def test_link_that_catches_up_rests_as_long_as_a_response_took_to_write(took_ms: float) -> None:
    linger = FetchLinger(lambda: LINGER_MS)
    linger.sent(0)
    assert linger.pause_ms(took_ms, is_urgent=True, took_ms=took_ms) == min(took_ms, MOST_REST_MS)


def test_steady_records_gather() -> None:
    """2,000 records a second: 50 Fetches a second, with 40 records each."""
    sent, _ = follow([number // 2 for number in range(4_000)], LINGER_MS)
    assert len(sent) <= 2_000 / LINGER_MS + 1
    assert len(follow([number // 2 for number in range(4_000)], 0)[0]) == 2_000


def test_pause_that_is_changed_counts_from_the_next_response_on() -> None:
    pauses = iter([20, 0, 50])
    linger = FetchLinger(lambda: next(pauses))
    assert linger.pause_ms(5, is_urgent=False) == 0, "nothing was sent yet"
    linger.sent(10)
    assert [linger.pause_ms(12, is_urgent=False) for _ in range(3)] == [18, 0, 48]
