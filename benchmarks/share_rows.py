"""The rows of share groups: one member, and four members of a group, take a topic's records and accept them.

The group starts at the topic's first record, and has its state at the persister before the time runs: with either broker,
the first member of a new group gets no records before its next heartbeat.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.wire import WireClient

from . import loads
from .loads import Load
from .reporting.kinds import CPU_PER_GB, THROUGHPUT, Row

_PROGRAM = Path(__file__).with_name("share_load.py")
_DEADLINE_S = 600
#: Codes in IncrementalAlterConfigs.
_GROUP_RESOURCE, _SET = 32, 0
KIB = 1024


def share_rows(scale: float) -> Iterator[Row]:
    for size, records in ((KIB, int(400_000 * scale)), (100, int(1_000_000 * scale))):
        for members in (1, 4):
            yield _row(size, records, members)
    yield _rdkafka_row(KIB, int(400_000 * scale))


def _row(size: int, records: int, members: int) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        return loads.java_share_consume(bootstrap, topic, records, size, members)

    return Row(_name(size, members), "Java", run, (THROUGHPUT, CPU_PER_GB), feeds=_filled(records, size))


def _rdkafka_row(size: int, records: int) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        return share_load(bootstrap, topic, "consume", records, size)

    return Row(_name(size, 1), "librdkafka", run, (THROUGHPUT, CPU_PER_GB), feeds=_filled(records, size))


def _name(size: int, members: int) -> str:
    label = f"{size // KIB} KiB" if size % KIB == 0 else f"{size} B"
    return f"share group of {members}, {label}"


def _filled(records: int, size: int) -> Callable[[str, str], Load]:
    """Returns a load that fills the topic and creates the group's state at the persister."""

    def feed(bootstrap: str, topic: str) -> Load:
        begin_with_the_first_record(bootstrap, topic)
        load = loads.java_produce(bootstrap, topic, records, size, acks="1")
        share_load(bootstrap, topic, "begin", 1, size)
        return load

    return feed


def begin_with_the_first_record(bootstrap: str, group: str) -> None:
    setting = AlterableConfig(name="share.auto.offset.reset", config_operation=_SET, value="earliest")
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group, configs=[setting])
    with WireClient(bootstrap) as client:
        response = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0, response


def share_load(bootstrap: str, topic: str, what: str, records: int, size: int) -> Load:
    """Runs share_load.py in its own process; the group has the topic's name."""
    command = [sys.executable, str(_PROGRAM), what, bootstrap, topic, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    if done.returncode:
        raise RuntimeError(f"share consumer failed:\n{done.stderr[-2000:]}")
    response = json.loads(done.stdout)
    return Load(response["records"], size, response["seconds"], {})
