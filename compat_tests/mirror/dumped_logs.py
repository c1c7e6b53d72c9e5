"""Logs as Apache's DumpLogSegments prints them: a judge of equality that has no code of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from compat_tests.java.tool import ToolHost

_TOOL = "org.apache.kafka.tools.DumpLogSegments"
#: A cluster's own: the epoch of its leader, and where a batch lies in a segment file.
_OWN = re.compile(r" (?:partitionLeaderEpoch|position): -?\d+")
_OF_BATCH, _OF_RECORD = "baseOffset: ", "| offset: "


def dumped(tools: ToolHost, directories: Iterable[Path], topic: str, index: int = 0) -> list[str]:
    """A line for each batch and each record of a partition: offsets, producers, sequences, times, keys, values, CRCs.

    `directories`: the log directories, of which one has the partition.
    """
    (folder,) = [place for one in directories if (place := one / f"{topic}-{index}").is_dir()]
    files = ",".join(str(file) for file in sorted(folder.glob("*.log")))
    printed = tools.run(_TOOL, "--deep-iteration", "--print-data-log", "--files", files).checked().out
    assert "isvalid: false" not in printed and "invalid bytes" not in printed, printed[-2000:]
    return [_OWN.sub("", line) for line in printed.splitlines() if line.startswith((_OF_BATCH, _OF_RECORD))]
