"""Damage in the metadata log of a leader of three controllers while it runs, in simulated time.

A follower that has lost its metadata log needs the damaged part.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from odradek.protocol.records.batch import HEADER_BYTES, iter_headers
from odradek.server.controller.metadata_log import DIRECTORY_NAME
from odradek.server.controller.metadata_snapshots import list_snapshots
from odradek.storage.files.quorum_state import QUORUM_STATE as QUORUM_STATE
from odradek.testing.simulation import Node, Simulation

from tests.hostile.damaged_files import overwrite, segments_of
from tests.server.harness.simulated_cluster import NODES, TOPIC, controller_of, create_topic, nodes, until

#: Bytes of records between two snapshots: "above" is too large for a snapshot in this test, "below" allows several.
SNAPSHOT_BYTES = {"above": "20971520", "below": "1500"}
#: Far less than the hour until the next snapshot is due.
CATCH_UP_S = 30


def metadata_of(node: Node) -> Path:
    return node.directory / DIRECTORY_NAME


def snapshot_end(node: Node) -> int:
    return max((one.end_offset for one in list_snapshots(metadata_of(node))), default=0)


def flip_batch(folder: Path, first: int, following: int) -> None:
    """Flips a bit of the first batch in this range of offsets."""
    for segment in segments_of(folder):
        data = segment.read_bytes()
        for position, header in iter_headers(data):
            if first <= header.base_offset and header.next_offset <= following:
                at = position + HEADER_BYTES + 2
                overwrite(segment, at, bytes([data[at] ^ 0x10]))
                return
    raise AssertionError(f"no batch from {first} to {following}")


def empty_metadata(node: Node, *, keeps_votes: bool) -> None:
    for path in metadata_of(node).iterdir():
        if not (keeps_votes and path.name.startswith(QUORUM_STATE)):
            path.unlink()


@pytest.mark.parametrize("keeps_votes", [True, False], ids=["with-votes", "without-votes"])
@pytest.mark.parametrize("where", SNAPSHOT_BYTES)
def test_follower_without_metadata_catches_up_from_leader_with_damage(
    where: str, keeps_votes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        cluster = nodes(simulation, metadata_log_max_record_bytes_between_snapshots=SNAPSHOT_BYTES[where])
        controller = await controller_of(cluster)
        await create_topic(cluster, list(NODES), partitions=20)
        leader = cluster[controller]
        if where == "below":
            await until(lambda: snapshot_end(leader) > 10, "a snapshot is written")
        follower = next(node for node in cluster.values() if node is not leader)
        await follower.stop()
        covered = snapshot_end(leader)
        end = leader.server.node.metadata.image.offset + 1
        flip_batch(metadata_of(leader), *((1, covered) if where == "below" else (covered + 1, end)))
        empty_metadata(follower, keeps_votes=keeps_votes)
        started = loop.time()

        await follower.start()
        await until(lambda: follower.server.node.metadata.image.offset >= end, "the follower has all metadata")

        assert loop.time() - started < CATCH_UP_S
        known = [set(node.server.node.metadata.image.topic(TOPIC).partitions) for node in (follower, leader)]
        assert known == [set(range(20))] * 2
        assert all(not node.server.failed.done() for node in cluster.values()), "no node ends"

    with caplog.at_level(logging.WARNING), Simulation(5) as simulation:
        simulation.run(story())

    assert not [record for record in caplog.records if record.exc_info], "no traceback"
    said = sum("the metadata log is damaged at offset" in line for line in caplog.messages)
    assert said == 1
