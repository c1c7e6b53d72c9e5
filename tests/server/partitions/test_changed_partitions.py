"""Partitions that follow an image: those that are led here come first, and changed defaults reach each once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.partitions.partition_changes import PartitionChanges, _Changed
from odradek.server.partitions.reconfiguration import Reconfiguration
from odradek.storage.files.open_files import OpenFiles

NODE = 1


class File:
    """The owner of an open file that is not in use."""

    used = False

    def __init__(self, number: int, closed: list[int]) -> None:
        self._number, self._closed = number, closed

    def release_file(self) -> None:
        self._closed.append(self._number)


def test_partitions_that_are_led_here_are_applied_first() -> None:
    """Clients wait for leaders; followers are late in any case."""
    applied: list[int] = []
    changes: Any = SimpleNamespace(
        _node_id=NODE,
        _partitions=SimpleNamespace(get={}.get),
        _loading=SimpleNamespace(waiting={}),
        _apply_contained=lambda image, topic, index, registration: applied.append(index),
    )
    leaders = {0: 2, 1: NODE, 2: -1, 3: NODE}
    topic = _Changed("a", bytes(16), {i: SimpleNamespace(leader=leader) for i, leader in leaders.items()})  # type: ignore[misc]
    for _ in PartitionChanges._apply_topic(changes, None, topic):  # type: ignore[arg-type]
        pass
    assert applied == [1, 3, 0, 2]


@pytest.mark.parametrize(
    ("has_changed", "is_unfinished", "is_reconfigured"),
    [(True, False, True), (False, False, False), (False, True, True), (True, True, True)],
)
def test_topic_is_reconfigured_when_its_settings_changed_or_it_was_not_finished(
    has_changed: bool, is_unfinished: bool, is_reconfigured: bool
) -> None:
    refreshed: list[int] = []
    hosted = SimpleNamespace(
        log=SimpleNamespace(config=None), rules=None, refresh_append_state=lambda: refreshed.append(1)
    )
    reconfiguration: Any = SimpleNamespace(
        _settings=SimpleNamespace(
            refresh=lambda image, topic: has_changed, of=lambda image, topic: ("config", "rules")
        ),
        _unfinished={"a"} if is_unfinished else set(),
        _partitions={("a", 0): hosted, ("a", 1): hosted},
    )
    image: Any = SimpleNamespace(topic=lambda name: SimpleNamespace(partitions=(0, 1, 2)))
    for _ in Reconfiguration._reconfigure(reconfiguration, image, "a"):
        assert reconfiguration._unfinished == {"a"}
    assert len(refreshed) == (2 if is_reconfigured else 0)
    assert hosted.log.config == ("config" if is_reconfigured else None)
    assert reconfiguration._unfinished == set()


@pytest.mark.parametrize(("count", "left"), [(9, 4), (2, 1), (1, 0), (0, 0)])
def test_half_of_the_open_files_are_closed_when_descriptors_are_short(count: int, left: int) -> None:
    closed: list[int] = []
    files = OpenFiles(100)
    for number in range(count):
        files.admit(File(number, closed))
    assert files.close_some() == (count > 0)
    assert (len(files), closed) == (left, list(range(count - left)))
