"""The check of a whole replica, and the queue of its waiting replies."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.server.partitions.parked_requests import Deadlines, Parked
from odradek.server.partitions.replica_check import check_replica

from tests.server.harness.hosted import NOW_MS, Hosted, batch
from tests.server.harness.virtual_time import simulated

OWN, OTHER = 0, 1


def led(path: Path) -> Hosted:
    hosted = Hosted(path, OWN)
    hosted.lead(OTHER)
    for _ in range(3):
        hosted.append(batch(epoch=-1), NOW_MS)
    hosted.follower_fetched(OTHER, 1, 0, -1, NOW_MS)
    return hosted


def test_waiting_replies_are_kept_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    hosted, called = led(tmp_path), list[int]()
    for offset in (3, 2, 3):
        hosted.when_committed(offset, called.append)
    check_replica(hosted)
    assert [offset for offset, _ in hosted.waiting_for_commit] == [2, 3, 3]
    hosted.follower_fetched(OTHER, 2, 0, -1, NOW_MS)
    check_replica(hosted)
    assert called == [0]
    hosted.follower_fetched(OTHER, 3, 0, -1, NOW_MS)
    check_replica(hosted)
    assert called == [0, 0, 0]


def wait_for_the_past(hosted: Hosted) -> None:
    hosted._committing = deque([(1, print)])


def wait_for_what_is_not_written(hosted: Hosted) -> None:
    hosted._committing = deque([(4, print)])


def wait_out_of_order(hosted: Hosted) -> None:
    hosted._committing = deque([(3, print), (2, print)])


def wait_on_a_follower(hosted: Hosted) -> None:
    hosted._committing = deque([(2, print)])
    hosted.role.is_leader = False


def commit_the_future(hosted: Hosted) -> None:
    hosted.role.high_watermark = 4


def know_more_than_the_log(hosted: Hosted) -> None:
    hosted.role.log_end_offset = 4


def take_in_a_stranger(hosted: Hosted) -> None:
    hosted.role.isr = (OWN, 9)


def start_behind_the_high_watermark(hosted: Hosted) -> None:
    hosted.log.log_start_offset = 2


@pytest.mark.parametrize(
    "harm",
    [
        wait_for_the_past, wait_for_what_is_not_written, wait_out_of_order, wait_on_a_follower, commit_the_future,
        know_more_than_the_log, take_in_a_stranger, start_behind_the_high_watermark,
    ],
)  # fmt: skip
def test_parts_of_a_replica_that_contradict_each_other_are_found(
    tmp_path: Path, harm: Callable[[Hosted], None]
) -> None:
    hosted = led(tmp_path)
    check_replica(hosted)
    harm(hosted)
    with pytest.raises(AssertionError, match=r"\w"):
        check_replica(hosted)


def test_reply_that_waits_for_a_commit_of_the_past_is_found_by_the_next_one(tmp_path: Path) -> None:
    hosted = led(tmp_path)
    wait_for_the_past(hosted)
    with pytest.raises(AssertionError, match="waits for the past"):
        hosted.when_committed(3, print)
    assert len(list(hosted.waiting_for_commit)) == 1


class Reply(Parked):
    def expired(self) -> None:
        pass


def test_reply_has_one_deadline_at_a_time() -> None:
    async def story() -> None:
        deadlines, reply = Deadlines(asyncio.get_running_loop()), Reply()
        deadlines.add(reply, 100)
        with pytest.raises(AssertionError, match="waits already"):
            deadlines.add(reply, 100)
        deadlines.remove(reply)
        deadlines.add(reply, 100_000)
        with pytest.raises(AssertionError, match="waits already"):
            deadlines.add(reply, 100)
        deadlines.remove(reply)

    simulated(story)
