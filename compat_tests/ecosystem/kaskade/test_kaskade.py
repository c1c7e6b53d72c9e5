"""kaskade, by its keys on a terminal: the screen for topic administration, and the screen that shows records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import python, run

SCREEN = Path(__file__).parent / "screen.py"
Screen = Callable[..., str]


@pytest.fixture
def kaskade(tmp_path: Path) -> Screen:
    """Drives kaskade by steps (see screen.py), and returns the last screen."""
    interpreter = python("kaskade")

    def drive(words: list[str], *steps: tuple[str, str]) -> str:
        home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        return run([interpreter, str(SCREEN), *words], stdin=json.dumps(steps), env=home)

    return drive


def filtered(text: str) -> tuple[tuple[str, str], ...]:
    """Returns steps that narrow the list of topics; each key waits for the effect of the previous one."""
    opened = (("see", "Updated"), ("type", "/"), ("see", "Apply Filter"), ("type", text), ("cell", text))
    return (*opened, ("press", "enter"), ("see", f"*{text}*"), ("see", "Updated"))


def test_topics_are_listed_filtered_and_described(
    kaskade: Screen, bootstrap: str, unique: Callable[[str], str]
) -> None:
    orders, other = (reference_client.create(bootstrap, unique(name)[:30], 3) for name in ("orders", "other"))
    reference_client.produce(bootstrap, orders, (str(number) for number in range(300)))
    described = (("see", "≈300"), ("press", "enter"), ("see", f"Topic Details [{orders}]"), ("see", "Partitions [3]"))
    kaskade(["admin", "-b", bootstrap], ("see", other), *filtered(orders), ("gone", other), *described)


def test_a_topic_is_created_and_deleted_by_keys(kaskade: Screen, bootstrap: str, unique: Callable[[str], str]) -> None:
    name = unique("made")[:30]
    named = (("see", "Updated"), ("type", "n"), ("see", "Create Topic"), ("type", name), ("see", name))
    kaskade(["admin", "-b", bootstrap], *named, ("press", "f2"), ("see", f"Created topic '{name}'"))
    reference_client.await_topic(bootstrap, name, partitions=1)
    confirmed = (("press", "ctrl+d"), ("see", "Cancel"), ("type", name), ("cell", name))
    kaskade(["admin", "-b", bootstrap], *filtered(name), *confirmed, ("press", "enter"), ("see", "Deleted topic"))
    reference_client.await_topic(bootstrap, name, partitions=0)


def test_records_are_shown_with_keys_and_values(kaskade: Screen, bootstrap: str, unique: Callable[[str], str]) -> None:
    topic = reference_client.create(bootstrap, unique("read")[:30])
    reference_client.produce(
        bootstrap, topic, (f"value-{number}" for number in range(20)), (f"key-{number}" for number in range(20))
    )
    shown = [
        (action, f"{what}-{number}") for number in (0, 9, 19) for action, what in (("see", "key"), ("see", "value"))
    ]
    kaskade(["consumer", "-b", bootstrap, "-t", topic, "--earliest", "-k", "string", "-v", "string"], *shown)
