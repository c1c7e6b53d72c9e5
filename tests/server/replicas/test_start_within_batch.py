"""A follower whose leader's log begins within a batch, where DeleteRecords has moved its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import PartitionData
from odradek.server.replicas.followed_partition import FollowedPartition
from odradek.storage.files.checkpoints import HIGH_WATERMARKS, find_offsets

from tests.server.harness.hosted import NOW_MS, TOPIC, Disk, Hosted, batch, joined, truncations
from tests.server.harness.virtual_time import after_ms, simulated

START = 15


def followed_from_start(hosted: Hosted, disk: Disk) -> FollowedPartition:
    hosted.follow_leader(0)
    followed = FollowedPartition(hosted, NOW_MS, truncations(disk))
    followed.start_over(START, NOW_MS)
    return followed


def response(*batches: bytes | bytearray) -> PartitionData:
    return PartitionData(0, high_watermark=30, log_start_offset=START, records=joined(*batches))


def test_follower_has_the_whole_batch_in_which_its_leader_begins(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Hosted(tmp_path, 3)
        followed = followed_from_start(hosted, Disk())
        records = response(batch(10, offset=10), batch(10, offset=20))
        assert followed.take(records, NOW_MS) == 0 and followed.failures == 0
        assert hosted.offsets() == (START, 30, 30) and hosted.log.first_base_offset == 10
        assert followed.take(response(batch(5, offset=30)), NOW_MS) == 0
        assert hosted.log_end_offset == 35

    simulated(story)


def test_batch_waits_until_the_disk_claims_less(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, disk = Hosted(tmp_path, 3), Disk()
        followed = followed_from_start(hosted, disk)
        hosted.directory.claims.write(HIGH_WATERMARKS, {(TOPIC, 0): START})
        disk.ready.clear()
        assert followed.take(response(batch(10, offset=10)), NOW_MS) == 0
        assert followed.is_waiting and hosted.log_end_offset == START
        disk.ready.set()
        await after_ms(10)
        assert not followed.is_waiting and hosted.log_end_offset == 20
        assert find_offsets(str(tmp_path), HIGH_WATERMARKS).offsets == {(TOPIC, 0): 0}
        assert followed.take(response(batch(10, offset=20)), NOW_MS) == 0
        assert hosted.offsets() == (START, 30, 30)

    simulated(story)


@pytest.mark.parametrize("offset", [2, 4])
def test_batch_that_does_not_contain_the_start_is_no_beginning(tmp_path: Path, offset: int) -> None:
    async def story() -> None:
        hosted = Hosted(tmp_path, 3)
        followed = followed_from_start(hosted, Disk())
        assert followed.take(response(batch(10, offset=offset)), NOW_MS) == ErrorCode.CORRUPT_MESSAGE
        assert hosted.log_end_offset == START

    simulated(story)


def test_log_with_records_does_not_begin_anew(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = Hosted(tmp_path, 3)
        followed = followed_from_start(hosted, Disk())
        assert followed.take(response(batch(10, offset=START)), NOW_MS) == 0
        assert followed.take(response(batch(10, offset=20)), NOW_MS) == ErrorCode.CORRUPT_MESSAGE
        assert hosted.log_end_offset == 25

    simulated(story)
