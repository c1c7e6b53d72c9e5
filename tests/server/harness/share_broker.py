"""A broker in its own process, for share groups. Tests kill it, and it continues from its stored state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.odradek_process import OdradekProcess

#: Fewer partitions than the default load sooner after a restart.
_FEW_PARTITIONS = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}


@contextmanager
def share_broker(directory: Path, settings: dict[str, str]) -> Iterator[OdradekProcess]:
    process = OdradekProcess(directory, {**_FEW_PARTITIONS, **settings})
    process.start()
    try:
        yield process
    finally:
        process.kill()
