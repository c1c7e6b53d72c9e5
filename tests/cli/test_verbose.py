"""The lines of `odradek start -v`: one for each event of the broker, and none without -v."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.cli.harness.started import Started, change_topics

pytestmark = pytest.mark.usefixtures("processes")


def holds(lines: list[str], pattern: str) -> list[str]:
    return [line for line in lines if re.search(pattern, line)]


def test_verbose_start_logs_start_topics_recovery_and_stop(tmp_path: Path) -> None:
    first = Started(tmp_path, "-v")
    change_topics(first.address)
    lines = first.end(signal.SIGKILL)
    for pattern in (
        rf"starting Odradek \S+ as node 1 \(broker and controller\) with log directories {tmp_path}",
        r"this node is the active controller in epoch \d+",
        rf"node 1 of cluster \S{{22}} started in \d+ ms; listeners PLAINTEXT://{first.address}",
        "topic orders created: 3 partitions, replication factor 1",
        "topic wide created: 100 partitions, replication factor 1",
        r"this broker leads \d+ partitions: orders-0",
        "topic orders: 2 partitions added, 5 now",
        "configuration of topic orders: retention.ms",
        "topic wide deleted",
    ):
        assert len(holds(lines, pattern)) == 1, (pattern, lines)
    assert not holds(lines, "86400001"), "values are not logged"
    assert len(holds(lines, " INFO ")) < 20, "no line for each partition"

    second = Started(tmp_path, "-v")
    lines = second.end(signal.SIGTERM)
    assert holds(lines, rf"{tmp_path}: 5 logs opened after an unclean shutdown in \d+ ms")
    assert holds(lines, r"metadata loaded up to offset \d+: 1 topics with 5 partitions")
    assert holds(lines, "stopping node 1")
    assert holds(lines, r"node 1 stopped in \d+ ms")

    third = Started(tmp_path, "-v")
    assert holds(third.end(signal.SIGTERM), "5 logs opened after a clean shutdown")


def test_start_without_verbose_writes_nothing_to_standard_error(tmp_path: Path) -> None:
    started = Started(tmp_path)
    change_topics(started.address)
    lines = started.end(signal.SIGTERM)
    # On a busy machine a turn of the event loop may be long, which logs a warning.
    assert [line for line in lines if "odradek.turns" not in line] == []
