"""The rates of client quotas, measured as by Kafka's classes, and the quota that applies to a client."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.metadata.client_quotas import CLIENT_ID, USER
from odradek.metadata.image import QuotaEntity
from odradek.server.access.quotas import sensors
from odradek.server.access.quotas.quota_lookup import Quota, Share, quota_of
from odradek.server.access.quotas.rates import (
    Rate,
    SimpleRate,
    TokenBucket,
    bucket_throttle_ms,
    rate_throttle_ms,
)
from odradek.server.access.quotas.sensors import (
    MOST_OWED_NS,
    Meters,
    QuotaGeneration,
    RateSensor,
    Sensors,
)
from odradek.server.runtime.clock import Clock

from compat_tests.java.program import java_command
from tests.harness.examples import examples

_SOURCE = Path(__file__).parent / "java" / "QuotaRates.java"
NOW_MS = 1_700_000_000_000


def history(seed: int) -> Iterator[tuple[float, int]]:
    """Yields values and times: bursts, steps of a window, and long pauses."""
    rng = random.Random(seed)
    now_ms = NOW_MS + seed
    for _ in range(60):
        now_ms += rng.choice((0, 1, 137, 999, 1000, 1001, 3500, 10_999, 11_000, 11_001, 40_000))
        yield float(rng.randrange(-100, 2000)), now_ms


def test_rates_and_buckets_measure_as_apache_kafkas(java_tools: None) -> None:
    shapes = [
        (seed, windows, window_ms) for seed in range(12) for windows, window_ms in ((11, 1000), (1, 1000), (3, 250))
    ]
    lines, ours = [], []
    for seed, windows, window_ms in shapes:
        bound = 50.0 + seed
        rate, simple, bucket = Rate(windows, window_ms), SimpleRate(windows, window_ms), TokenBucket(windows, window_ms)
        lines.append(f"new {windows} {window_ms} {bound}")
        for value, now_ms in history(seed):
            rate.record(value, now_ms)
            simple.record(value, now_ms)
            bucket.record(value, bound, now_ms)
            lines += [f"add {value} {now_ms}", f"ask {now_ms + seed * 7}"]
            asked_ms = now_ms + seed * 7
            ours.append((*rate.measure(asked_ms), *simple.measure(asked_ms), bucket.measure(bound, asked_ms)))
    done = subprocess.run(
        java_command(_SOURCE), input="\n".join(lines), capture_output=True, text=True, check=True, timeout=60
    )
    theirs = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(theirs) == len(ours) == 60 * len(shapes)
    assert ours == [pytest.approx(one, rel=1e-9, abs=1e-6) for one in theirs]


@pytest.mark.parametrize(
    ("recorded", "now_ms", "rate"),
    [
        ([], 0, 0),
        ([(0, 500)], 0, 500),
        ([(0, 500)], 999, 500),
        ([(0, 500), (999, 500)], 1999, 1000_000 / 1999),
        ([(0, 500), (1000, 500)], 1999, 1000_000 / 1999),
        ([(0, 500), (1000, 500)], 2000, 500),
        ([(0, 500), (999, 500), (1000, 100)], 2000, 550),
        ([(0, 500)], 2000, 0),
    ],
)
def test_simple_rate_divides_by_the_time_since_its_first_window(
    recorded: list[tuple[int, int]], now_ms: int, rate: float
) -> None:
    simple = SimpleRate(2, 1000)
    for at_ms, size in recorded:
        simple.record(size, NOW_MS + at_ms)
    assert simple.measure(NOW_MS + now_ms)[0] == pytest.approx(rate)


def test_throttle_is_the_pause_that_brings_a_rate_down_to_its_quota() -> None:
    sensor = RateSensor(11, 1000)
    sensor.bound = 100.0
    assert sensor.record(1000, NOW_MS) == 0  # ten windows full
    assert sensor.record(100, NOW_MS) == 1000
    assert sensor.record(0, NOW_MS + 500) == 500
    # A pause counts within its window; at the next one Kafka counts ten windows again.
    assert sensor.record(0, NOW_MS + 1000) == 1000
    assert sensor.record(0, NOW_MS + 11_000) == 0


def test_throttle_of_a_bucket_is_the_time_until_it_is_full_to_zero() -> None:
    assert bucket_throttle_ms(-5.0, 2.0) == 2500
    assert bucket_throttle_ms(0.0, 2.0) == 0
    assert rate_throttle_ms(1e30, 1e-9, 10_000) == 2**31 - 1


Limits = dict[QuotaEntity, float]


def entity(user: str | None = "", client_id: str | None = "") -> QuotaEntity:
    """Returns an entity; "" leaves a part out, None is the default."""
    return tuple((kind, name) for kind, name in ((CLIENT_ID, client_id), (USER, user)) if name != "")


#: From the most specific to the least, each with the clients that share it.
LEVELS = [
    (entity("alice", "app"), Share("alice", "app")),
    (entity("alice", None), Share("alice", "app")),
    (entity("alice"), Share("alice", "")),
    (entity(None, "app"), Share("alice", "app")),
    (entity(None, None), Share("alice", "app")),
    (entity(None), Share("alice", "")),
    (entity("", "app"), Share("", "app")),
    (entity("", None), Share("", "app")),
]


@pytest.mark.parametrize("level", range(8))
def test_the_most_specific_quota_holds(level: int) -> None:
    limits = {one: float(number) for number, (one, _) in enumerate(LEVELS) if number >= level}
    assert quota_of(limits.get, "alice", "app") == Quota(LEVELS[level][1], float(level))


def test_quotas_of_others_do_not_hold() -> None:
    limits = dict.fromkeys(
        (entity("bob", "app"), entity("bob", None), entity("bob"), entity(None, "b"), entity("", "b")), 1.0
    )
    assert quota_of(limits.get, "alice", "app") is None


def test_a_client_without_an_id_has_the_quota_of_its_user() -> None:
    limits: Limits = {entity("alice"): 1.0, entity("", None): 2.0, entity(None): 3.0}
    assert quota_of(limits.get, "alice", "") == Quota(Share("alice", ""), 1.0)
    assert quota_of(limits.get, "bob", "") == Quota(Share("bob", ""), 3.0)
    del limits[entity(None)]
    assert quota_of(limits.get, "bob", "") is None


def made(limits: Limits) -> Sensors[RateSensor]:
    return Sensors(limits.get, lambda: RateSensor(11, 1000))


def test_clients_of_a_user_share_its_measure() -> None:
    found = made({entity("alice"): 5.0})
    one, other = (found.of("alice", client, NOW_MS) for client in ("a", "b"))
    assert one is other
    assert found.of("bob", "a", NOW_MS) is None


def test_a_new_quota_holds_for_what_was_measured() -> None:
    limits = {entity("alice"): 5.0}
    found = made(limits)
    before = found.of("alice", "a", NOW_MS)
    limits[entity("alice")] = 7.0
    found.forget_quotas()
    after = found.of("alice", "a", NOW_MS)
    assert after is before
    assert after is not None and after.bound == 7.0


def test_unused_measures_expire() -> None:
    found = made({entity("", None): 5.0})
    old, new = (found.of("u", client, NOW_MS + later) for client, later in (("old", 0), ("new", 1)))
    assert old is not None and new is not None
    now_ms = NOW_MS + sensors.EXPIRY_MS
    assert found.of("u", "newer", now_ms) is not None
    assert found.of("u", "new", now_ms) is new
    assert found.of("u", "old", now_ms) is not old


def test_clients_that_make_up_ids_do_not_take_memory_or_the_measure_of_an_active_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sensors, "MOST_SENSORS", 300)
    monkeypatch.setattr(sensors, "MOST_CLIENTS", 500)
    found = made({entity("", None): 5.0})
    active = found.of("u", "active", NOW_MS)
    for number in range(1000):
        found.of("u", f"{'x' * 30_000}{number}", NOW_MS + number)
        assert found.of("u", "active", NOW_MS + number) is active
        assert len(found) <= 300
    assert sum(len(share.client_id) for share in found._sensors) < 300 * 100


@pytest.mark.parametrize("seed", range(examples(6)))
def test_taking_throttles_as_recording_does(seed: int) -> None:
    """Compares a sensor that grants itself amounts with a sensor that adds up its windows for every value."""
    rng, clock = random.Random(seed), Clock(lambda: (now_ms + 0.5) / 1000)
    clock.is_system = True  # it advances with the nanoseconds below
    granting, recording = RateSensor(11, 1000), RateSensor(11, 1000)
    now_ms, throttled = NOW_MS, 0
    for step in range(4000):
        if step % 500 == 0:
            granting.bound = recording.bound = rng.choice((200.0, 5000.0, 1e6))
        now_ms += rng.choice((0, 1, 3, 20, 20, 400, 3000 if step % 100 == 0 else 5))
        value = float(rng.randrange(100))
        expected = recording.record(value, now_ms)
        assert granting.take(value, now_ms * 1_000_000, clock) == expected
        throttled += expected > 0
        if step % 50 == 0:
            assert granting.measure(now_ms) == pytest.approx(recording.measure(now_ms))
    assert 0 < throttled < 4000, "both sides of the bound were met"


@pytest.mark.parametrize("seed", range(examples(4)))
def test_produce_that_meters_take_would_not_have_been_throttled(seed: int) -> None:
    """Compares `takes_produce` with a sensor that adds up its windows for every request: same rates, no missed throttle."""
    rng, clock = random.Random(seed), Clock(lambda: (now_ms + 0.5) / 1000)
    clock.is_system = True
    produced, recording = RateSensor(11, 1000), RateSensor(11, 1000)
    produced.bound = recording.bound = 3000.0
    generation = QuotaGeneration()
    meters = Meters(produced, None, None, generation)
    now_ms, taken, throttled = NOW_MS, 0, 0
    for step in range(4000):
        now_ms += rng.choice((0, 1, 3, 20, 20, 400, 3000 if step % 100 == 0 else 5))
        size = rng.randrange(400)
        expected = recording.record(float(size), now_ms)
        if meters.takes_produce(size, now_ms * 1_000_000):
            taken += 1
            assert not expected
        else:
            assert produced.take(float(size), now_ms * 1_000_000, clock) == expected
            throttled += expected > 0
        if step % 50 == 0:
            assert produced.measure(now_ms) == pytest.approx(recording.measure(now_ms))
    assert taken and throttled
    produced.bound = 1e6
    produced.take(1.0, now_ms * 1_000_000, clock)
    assert meters.takes_produce(1, now_ms * 1_000_000)
    generation.is_current = False
    assert not meters.takes_produce(1, now_ms * 1_000_000), "the quotas have changed since"


def test_time_that_produce_owes_is_recorded_by_a_request_in_time() -> None:
    clock = Clock(lambda: (NOW_MS + 0.5) / 1000)
    clock.is_system = True
    requests = RateSensor(11, 1000)
    requests.bound = 200.0
    meters, now_ns = Meters(None, None, requests, QuotaGeneration()), NOW_MS * 1_000_000
    assert not meters.takes_produce(1, now_ns), "nothing is granted yet"
    requests.take(1.0, now_ns, clock)
    assert meters.takes_produce(1, now_ns)
    requests.owed_ns = MOST_OWED_NS
    assert not meters.takes_produce(1, now_ns)
    requests.owed_ns = 0
    requests.take(requests.left - 1.0, now_ns, clock)
    assert not meters.takes_produce(1, now_ns), "a long one would exceed the quota"


def rates_of_a_greedy_client(windows: int, size: int, *, fetches: bool = False) -> tuple[float, float]:
    """Returns the least and the largest rate in a minute, as fractions of the quota. The client obeys throttle times, and
    sends requests or gets responses of `size` bytes without a pause.
    """
    sensor = RateSensor(windows, 1000)
    sensor.bound = 1e6
    now_ms, seconds = float(NOW_MS), 300
    sent = [0] * seconds
    while now_ms < NOW_MS + 1000 * seconds:
        second, throttle_ms = int(now_ms - NOW_MS) // 1000, sensor.record(size, int(now_ms))
        if fetches and throttle_ms:
            sensor.record(-size, int(now_ms))  # the response has no records
            now_ms += throttle_ms
        else:
            sent[second] += size
            now_ms += size / 200_000 + throttle_ms
    minutes = [sum(sent[began : began + 60]) / 60e6 for began in range(windows, seconds - 60)]
    return min(minutes), max(minutes)


@pytest.mark.parametrize("size", [16_000, 100_000, 250_000, 1_000_000])
def test_a_greedy_producer_gets_its_quota_in_every_minute_with_four_windows(size: int) -> None:
    least, largest = rates_of_a_greedy_client(4, size)
    assert 0.95 <= least <= largest <= 1.05


@pytest.mark.parametrize("size", [16_000, 100_000])
def test_a_greedy_consumer_of_small_responses_gets_its_quota_in_every_minute_with_four_windows(size: int) -> None:
    least, largest = rates_of_a_greedy_client(4, size, fetches=True)
    assert 0.92 <= least <= largest <= 1.05


@pytest.mark.parametrize("fetches", [False, True])
def test_a_greedy_client_gets_its_quota_in_some_minutes_only_with_eleven_windows(fetches: bool) -> None:
    """With Kafka's default, bursts come every 11 s, so a minute has five or six of them."""
    least, largest = rates_of_a_greedy_client(11, 16_000, fetches=fetches)
    assert 0.90 <= least < 0.96
    assert 1.05 < largest < 1.11
