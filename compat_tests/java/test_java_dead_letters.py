"""Records that Apache's share consumer of 4.4 gives up, in the group's dead-letter queue (KIP-1191)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.fixtures import UNDER_TEST
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.java.program import java_command
from compat_tests.java.tool import ToolHost
from compat_tests.odradek_process import OdradekProcess

_SOURCE = Path(__file__).resolve().parent / "DeadLetters.java"
_DEADLINE_S = 150
SETTINGS = {**UNDER_TEST, "errors.deadletterqueue.auto.create.topics.enable": "true", "num.partitions": "1"}
P = "__dlq.errors."


@pytest.fixture
def upgraded(tools: ToolHost, tmp_path: Path) -> Iterator[OdradekProcess]:
    """A broker whose feature level Apache's tool has raised at runtime."""
    with OdradekProcess(tmp_path, SETTINGS) as broker:
        address = ("--bootstrap-server", broker.bootstrap)
        command = "org.apache.kafka.tools.FeatureCommand"
        done = tools.run(command, *address, "upgrade", "--feature", "share.version=2").checked()
        assert "share.version was upgraded to 2." in done.out
        described = tools.run(command, *address, "describe").checked().out
        (line,) = (line for line in described.splitlines() if line.startswith("Feature: share.version"))
        assert ("SupportedMaxVersion: 2" in line, "FinalizedVersionLevel: 2" in line) == (True, True), line
        yield broker


def test_rejected_and_overdelivered_records_are_in_the_dead_letter_queue(upgraded: OdradekProcess) -> None:
    values = ("good 0", "bad 1", "late 2", "bad 3")
    arguments = [upgraded.bootstrap, "orders", "workers", "dlq.orders", "3", *values]
    command = java_command(_SOURCE, *arguments, version=SPECIFICATION)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    assert done.returncode == 0, done.stderr

    def dead_letter(offset: int, deliveries: int, why: str) -> str:
        value = values[offset]
        where = f"{P}topic=orders | {P}partition=0 | {P}offset={offset} | {P}group=workers"
        return f"{value} | {value.split()[0]} | {where} | {P}delivery.count={deliveries} | {P}message={why}"

    assert sorted(done.stdout.splitlines()) == [
        dead_letter(1, 1, "Offset rejected by client."),
        dead_letter(3, 1, "Offset rejected by client."),
        dead_letter(2, 2, "Offset delivery count exceeded the threshold."),
    ]
