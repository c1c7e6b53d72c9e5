"""A replica fetches its damaged segments again from another replica, and readers do not notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.replicas import healing
from odradek.storage.segments.damage import DamagedRange

from tests.hostile.damaged_files import DAMAGES, good_records, segments_of
from tests.server.harness.replicas import Replicas, eventually

pytestmark = pytest.mark.usefixtures("sockets")

SMALL = {"internal_segment_bytes": "8192", "index_interval_bytes": "1024", "retention_ms": "-1"}
BATCHES = 220
VALUE_BYTES = 300


def fill(replicas: Replicas, leader: int, batches: int = BATCHES) -> dict[int, bytes]:
    """Produces batches. Returns the values by offset."""
    sent: dict[int, bytes] = {}
    hosted = replicas.hosted(leader)
    for _ in range(batches):
        first = hosted.log_end_offset
        values = [b"%06d" % (first + number) * (VALUE_BYTES // 6) for number in range(2)]
        records = [
            Record(number, 1_000_000 + first, b"k%d" % (first % 300), value) for number, value in enumerate(values)
        ]
        assert hosted.append(bytearray(encode_batch(records)), 1_000_000 + first).error == 0
        sent |= {first + number: value for number, value in enumerate(values)}
    return sent


def files(replicas: Replicas, number: int) -> list[Path]:
    return segments_of(Path(replicas.hosted(number).log.path))


async def read_all(replicas: Replicas, number: int) -> dict[int, bytes]:
    got: dict[int, bytes] = {}
    while len(got) < replicas.hosted(number).log_end_offset:
        offset = len(got)
        data = await replicas.fetch(number, offset)
        assert data.error_code == 0, ErrorCode(data.error_code).name
        new = good_records(bytes(data.records))
        assert not new or min(new) >= offset - 1
        got |= new
    return got


async def scrubbed(replicas: Replicas, number: int) -> None:
    for segment in replicas.hosted(number).log.segments[:-1]:
        segment.close()
    await replicas.server(number).replicas.scrubber.round()


@pytest.mark.parametrize("where", ["leader", "follower"])
async def test_damage_is_healed_from_another_replica(tmp_path: Path, where: str) -> None:
    """Applies every kind of damage, each to a different segment, while a consumer reads."""
    async with Replicas(tmp_path, 2) as replicas:
        replicas.create(1, 2, **SMALL)
        sent = fill(replicas, 1)
        await replicas.equal(1, 2)
        whole = replicas.bytes_of(1)
        damaged = 1 if where == "leader" else 2
        for number, kind in enumerate(DAMAGES, 1):
            DAMAGES[kind](files(replicas, damaged)[number])
        counters, log = replicas.server(damaged).node.damage, replicas.hosted(damaged).log

        await scrubbed(replicas, damaged)

        assert await read_all(replicas, damaged) == sent, "readers wait while damage is healed"
        await eventually(lambda: not log.damage, "healed")
        assert counters.ranges_found == counters.ranges_healed == len(DAMAGES)
        assert replicas.bytes_of(damaged) == whole
        await scrubbed(replicas, damaged)
        assert counters.ranges_found == len(DAMAGES), "nothing is wrong any more"


async def test_damage_that_every_replica_has_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healing, "RETRY_S", 0.1)
    async with Replicas(tmp_path, 2) as replicas:
        replicas.create(1, 2, **SMALL)
        fill(replicas, 1)
        await replicas.equal(1, 2)
        for number in (1, 2):
            DAMAGES["payload"](files(replicas, number)[2])
        for number in (1, 2):
            await scrubbed(replicas, number)
        await eventually(lambda: not any(replicas.hosted(number).is_healing for number in (1, 2)), "it gives up")

        (found,) = replicas.hosted(1).log.damage
        assert (await replicas.fetch(1, found.first_offset)).error_code == ErrorCode.CORRUPT_MESSAGE
        after = await replicas.fetch(1, found.next_offset)
        assert min(good_records(bytes(after.records))) == found.next_offset


async def test_gap_of_several_segments_is_filled(tmp_path: Path) -> None:
    async with Replicas(tmp_path, 2) as replicas:
        replicas.create(1, 2, **SMALL)
        sent = fill(replicas, 1)
        await replicas.equal(1, 2)
        whole = replicas.bytes_of(2)
        hosted = replicas.hosted(2)
        log = hosted.log
        first, following = log.segments[3].base_offset, log.segments[7].base_offset

        for segment in log.segments[3:7]:
            segment.delete()
        del log.segments[3:7], log._bases[3:7]
        log.segments[2].next_offset = following
        end = log.segments[2]
        log.add_damage([DamagedRange(Path(end.path).name, end.size, 0, first, following, "the file ends early")])

        replicas.server(2).replicas.healer().wants(hosted)
        await eventually(lambda: not log.damage, "healed")

        assert replicas.bytes_of(2) == whole
        assert max(segment.size for segment in log.segments) < 3 * 8192
        assert await read_all(replicas, 2) == sent


async def test_compacted_log_is_taken_from_one_replica(tmp_path: Path) -> None:
    """Records that one replica has compacted away must not come back from a part of another replica."""
    async with Replicas(tmp_path, 2, **{"log.cleaner.enable": "false"}) as replicas:
        replicas.create(1, 2, **SMALL, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        fill(replicas, 1)
        await replicas.equal(1, 2)
        assert await replicas.server(1).replicas.cleaner.clean_one()
        cleaned = replicas.bytes_of(1)
        assert len(cleaned) < len(replicas.bytes_of(2))

        DAMAGES["zeros"](files(replicas, 2)[4])
        await scrubbed(replicas, 2)
        await eventually(lambda: not replicas.hosted(2).log.damage, "healed")
        await eventually(lambda: replicas.bytes_of(2) == cleaned, "all of it")

        DAMAGES["payload"](max(files(replicas, 1)[:-2], key=lambda file: file.stat().st_size))
        await scrubbed(replicas, 1)
        await eventually(lambda: not replicas.hosted(1).log.damage, "healed")
        assert replicas.bytes_of(1) == cleaned


async def test_follower_that_copies_damage_has_the_leader_healed(tmp_path: Path) -> None:
    """The leader has not verified its log, and finds the damage when the follower fetches again."""
    async with Replicas(tmp_path, 3, each={3: {"replica.fetch.backoff.ms": "20"}}) as replicas:
        replicas.create(1, 2, **SMALL)
        sent = fill(replicas, 1)
        await replicas.equal(1, 2)
        whole = replicas.bytes_of(1)
        DAMAGES["payload"](files(replicas, 1)[2])

        replicas.change(replicas=[1, 2, 3], adding_replicas=[3])
        await eventually(lambda: replicas.server(1).node.damage.ranges_healed, "the leader is healed")
        await eventually(lambda: replicas.hosted(3).log_end_offset == len(sent), "the follower has all")

        assert replicas.server(3).node.damage.bad_fetches
        assert replicas.bytes_of(3) == replicas.bytes_of(1) == whole
