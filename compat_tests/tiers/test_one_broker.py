"""One broker with tiered storage in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

from . import tiered

COUNT = 6000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def broker(tmp_path: Path, folder: Path) -> Iterator[OdradekProcess]:
    with OdradekProcess(tmp_path / "node", tiered.properties(folder)) as started:
        yield started


def await_local_start(broker: OdradekProcess, at_least: int) -> None:
    eventually(
        lambda: min(tiered.local_bases(broker.data_dir), default=0) >= at_least,
        what=f"the local log starts at {at_least} or later",
        deadline_s=60,
    )


def test_records_of_removed_segments_are_read_from_the_store(broker: OdradekProcess, folder: Path) -> None:
    tiered.make_topic(broker.bootstrap)
    values = tiered.values_of(COUNT)
    tiered.produce(broker.bootstrap, values)
    await_local_start(broker, COUNT // 2)
    assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
    broker.stop()
    broker.start()
    assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
    broker.kill()
    broker.start()
    more = tiered.values_of(COUNT, COUNT)
    tiered.produce(broker.bootstrap, more)
    await_local_start(broker, COUNT + COUNT // 2)
    assert tiered.consume(broker.bootstrap, 2 * COUNT) == tiered.numbered(values + more)
