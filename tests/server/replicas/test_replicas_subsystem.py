"""The work on replicas of a node: what begins with it, ends with it, and takes what its partitions find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.server.replicas.moves import ReplicaMove
from odradek.server.runtime.lazy import Lazy
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log

from tests.server.harness.hosted import NOW_MS, Hosted
from tests.server.harness.subsystems import Part, Subsystems


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    made = Subsystems(tmp_path / "a", tmp_path / "b")
    yield made
    made.close()


REPLICA_PARTS = ("maintenance", "cleaner", "scrubber")
#: Made with their first use.
LATE_PARTS = ("moves", "healer")


def script(node: Subsystems, *late: str, fails: tuple[str, ...] = ()) -> None:
    node.script(node.replicas, *REPLICA_PARTS, fails=fails)
    for name in late:
        part: Any = Part(name, node.calls, *(("stop",) if name in fails else ()))
        setattr(node.replicas, name, Lazy(lambda made=part: made))
        getattr(node.replicas, name)()


@pytest.mark.parametrize("was_interrupted", [False, True])
async def test_work_on_replicas_begins_with_the_interrupted_moves(was_interrupted: bool, node: Subsystems) -> None:
    script(node, "moves")
    if was_interrupted:
        (Path(node.directories[1].path) / f"t-0.{'0' * 32}-future").mkdir()
    await node.replicas.start()
    assert node.called() == [
        *([("moves", "resume")] if was_interrupted else []),
        ("maintenance", "start"), ("cleaner", "start"), ("scrubber", "start"),
    ]  # fmt: skip


@pytest.mark.parametrize("failing", [None, "healer", "scrubber"])
@pytest.mark.parametrize("replicates", [True, False])
async def test_all_work_on_replicas_ends_though_a_part_does_not_stop(
    failing: str | None, replicates: bool, node: Subsystems
) -> None:
    script(node, *LATE_PARTS, fails=(failing,) if failing else ())
    if replicates:
        node.replicas.replication.made = Part("replication", node.calls)  # type: ignore[assignment]
    if failing is None:
        await node.replicas.stop()
    else:
        with pytest.raises(ZeroDivisionError, match=failing):
            await node.replicas.stop()
    stopped = {(name, "stop") for name in REPLICA_PARTS + LATE_PARTS}
    assert set(node.called()) == stopped | ({("replication", "close")} if replicates else set())
    assert (node.replicas.replication.made is not None) == replicates, "a stop makes no part"


async def test_start_and_stop_make_no_part_that_nothing_has_used(node: Subsystems) -> None:
    script(node)
    await node.replicas.start()
    await node.replicas.stop()
    assert (node.replicas.moves.made, node.replicas.healer.made) == (None, None)


async def test_work_of_the_partitions_is_handed_to_its_part(node: Subsystems) -> None:
    hosted: Any = object()
    script(node, "healer")
    replication = node.replicas.replication()
    isr_changes: Any = Part("isr_changes", node.calls)
    replication.isr_changes = isr_changes
    replication.follow = Part("replication", node.calls).follow  # type: ignore[method-assign]
    node.replicas.follow(hosted)
    node.replicas.propose(hosted, 5)  # type: ignore[arg-type]
    node.replicas.heal(hosted)
    node.replicas.damage_met(hosted, 6)  # type: ignore[arg-type]
    assert node.called() == [
        ("replication", "follow", hosted),
        ("isr_changes", "propose", hosted, 5),
        ("healer", "wants", hosted),
        ("scrubber", "met", hosted, 6),
    ]
    replication.close()


@pytest.mark.parametrize(("is_moving", "is_healing"), [(True, False), (False, True), (False, False)])
async def test_cleaner_leaves_out_replicas_that_are_moved_or_healed(
    is_moving: bool, is_healing: bool, node: Subsystems, tmp_path: Path
) -> None:
    hosted = Hosted(tmp_path)
    assert not node.replicas._is_rewritten(hosted), "without moves and a healer"
    moves, healer = node.replicas.moves(), node.replicas.healer()
    if is_moving:
        directory = node.directories[1]
        future = Log.open(directory.future_path(hosted.topic, 0), hosted.topic, 0, LogConfig(), now_ms=NOW_MS)
        moves._moves[hosted] = ReplicaMove(hosted, directory, future)
    if is_healing:
        healer._healed_now = hosted
    assert node.replicas._is_rewritten(hosted) == (is_moving or is_healing)
