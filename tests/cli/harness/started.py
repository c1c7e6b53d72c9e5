"""A broker as a process, with its log lines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.wire import WireClient

_TOPIC, _SET = 2, 0

#: The line that a started broker prints.
SERVING = re.compile(r"^odradek: serving on (?P<address>\S+:\d+) \(data in (?P<data>.+)\)$")


class Started:
    """`odradek start` with these arguments; `end` returns its standard error."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "odradek", "start", "--port", "0", "--data-dir", str(folder), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"serving on (\S+)", self.process.stdout.readline())
        assert found is not None
        self.address = found[1]

    def end(self, number: int) -> list[str]:
        self.process.send_signal(number)
        _, written = self.process.communicate(timeout=60)
        return written.splitlines()


def change_topics(address: str) -> None:
    with WireClient(address) as client:
        topics = [CreatableTopic("orders", 3, 1), CreatableTopic("wide", 100, 1)]
        assert not any(
            t.error_code for t in client.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7).topics
        )
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic("orders", 5, None)], timeout_ms=60_000)
        assert client.call(more, 3).results[0].error_code == 0
        resource = AlterConfigsResource(_TOPIC, "orders", [AlterableConfig("retention.ms", _SET, "86400001")])
        assert client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")], timeout_ms=60_000)
        assert client.call(gone, 6).responses[0].error_code == 0
