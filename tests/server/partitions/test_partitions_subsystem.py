"""The partitions of a node: how they end, and what a directory that fails does to the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.subsystems import Subsystems


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    made = Subsystems(tmp_path / "a", tmp_path / "b")
    yield made
    made.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("failing", [None, "_loading"])
async def test_logs_are_closed_when_nothing_opens_or_changes_them_any_more(
    clean: bool, failing: str | None, node: Subsystems
) -> None:
    node.script(node.partitions, "hosted", "_changes", "_loading", fails=(failing,) if failing else ())
    node.partitions.stops_cleanly = clean
    if failing is None:
        await node.partitions.stop()
    else:
        with pytest.raises(ZeroDivisionError):
            await node.partitions.stop()
    assert node.called() == [("changes", "stop"), ("loading", "stop"), ("hosted", "close", 77, clean)]


async def test_node_halts_when_its_last_directory_fails(node: Subsystems) -> None:
    first, second = node.directories
    failures = [LogDirectoryFailure(one.path, "writing", OSError(5, "broken")) for one in (first, second)]
    node.partitions.hosted.directory_failed(failures[0])
    assert node.halt.failures == [] and (first.is_online, second.is_online) == (False, True)
    node.partitions.hosted.directory_failed(failures[1])
    assert node.halt.failures == [failures[1]]
