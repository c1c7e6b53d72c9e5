"""Changed defaults of topics: all partitions that inherit them get the new settings, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import odradek
import pytest
from odradek.server.runtime.sliced_work import STEPS_PER_SLICE

from tests.server.harness.data_path import DataPath, wait_until

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture
def path() -> Iterator[DataPath]:
    with odradek.Broker() as broker:
        found = DataPath(broker)
        yield found
        found.close()


def on_loop(path: DataPath, work: Callable[[], Any]) -> Any:
    run = path.broker._run
    assert run is not None

    async def do() -> Any:
        return work()

    return asyncio.run_coroutine_threadsafe(do(), run.loop).result()


def change_defaults(path: DataPath, *changes: dict[str, str]) -> None:
    """Applies the changes in one turn of the loop; each replaces the previous one."""
    config = path.broker.server.config
    on_loop(path, lambda: [config.take_dynamic(one, {}) for one in changes])


def test_a_changed_default_reconfigures_only_the_topics_that_inherit_it(path: DataPath) -> None:
    inherits, overrides = path.topic(partitions=3), path.topic(partitions=3, retention_ms="5")
    before = [path.hosted(overrides, index).log.config for index in range(3)]
    change_defaults(path, {"log.retention.ms": "7000"})
    wait_until(lambda: {path.hosted(inherits, index).log.config.retention_ms for index in range(3)} == {7000})
    after = [path.hosted(overrides, index).log.config for index in range(3)]
    assert all(new is old for new, old in zip(after, before, strict=True))
    change_defaults(path, {"log.retention.ms": "7000", "message.max.bytes": "2000"})
    wait_until(lambda: path.hosted(overrides).log.config.max_message_bytes == 2000)
    assert path.hosted(overrides).log.config.retention_ms == 5


def test_a_value_that_no_topic_inherits_changes_no_partition(path: DataPath) -> None:
    topic = path.topic()
    before = path.hosted(topic).log.config, path.hosted(topic).rules
    change_defaults(path, {"log.cleaner.threads": "2"})
    now = path.hosted(topic).log.config, path.hosted(topic).rules
    assert all(new is old for new, old in zip(now, before, strict=True))


def test_topics_without_overrides_share_their_settings(path: DataPath) -> None:
    first, second = path.hosted(path.topic()), path.hosted(path.topic())
    assert first.log.config is second.log.config
    assert first.rules is second.rules


def test_a_change_amid_another_leaves_no_partition_behind(path: DataPath) -> None:
    count = STEPS_PER_SLICE + 100
    topic = path.topic(partitions=count, max_message_bytes="3000")
    first = {"log.retention.ms": "7000"}
    # The topic does not inherit the second change, which comes when only some partitions have the first.
    change_defaults(path, first, {**first, "message.max.bytes": "2000"})
    wait_until(lambda: {path.hosted(topic, index).log.config.retention_ms for index in range(count)} == {7000})
    assert {path.hosted(topic, index).log.config.max_message_bytes for index in range(count)} == {3000}
