"""Configuration keys that no package reads are marked as without effect, and no other keys are."""

from __future__ import annotations

import ast
import re

import pytest
from odradek.metadata.configs.broker_values import synonyms
from odradek.metadata.configs.key import ConfigKey
from odradek.metadata.configs.resources import BROKER, OWN, TOPIC

from tests.harness.facts import kept_facts
from tests.harness.sources import files, nodes_of

ROOMS = ("archive", "server", "coordinator", "replication", "storage", "cli")

#: The layers share the keys of mirrors by these constants.
KEYS_OF_MIRRORS = "metadata/mirror_keys.py"

#: Keys that code outside metadata/configs names only for single-node defaults, for a check, or in the plan of a migration.
NAMED_WITHOUT_EFFECT = {
    "metric.reporters",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
}


@pytest.fixture(scope="module")
def named() -> re.Pattern[str]:
    """Returns a pattern of every name in the code of the packages. A placeholder of an f-string matches any word."""
    texts: set[str] = set()
    for room in ROOMS:
        for file in files(f"{room}/*.py"):
            texts |= names_of(file)
    texts |= names_of(KEYS_OF_MIRRORS)
    return re.compile("|".join(sorted(texts)))


@kept_facts
def names_of(file: str) -> set[str]:
    """Returns a pattern of each name in the code of a module."""
    found = set()
    for node in nodes_of(file):
        if isinstance(node, ast.Constant) and re.fullmatch(r"[a-z0-9.]+", str(node.value)):
            found.add(re.escape(str(node.value)))
        elif isinstance(node, ast.JoinedStr):
            parts = [re.escape(p.value) if isinstance(p, ast.Constant) else r"[a-z0-9]+" for p in node.values]
            if any(re.search(r"[a-z].*\\\.|\\\..*[a-z]", part) for part in parts if part != r"[a-z0-9]+"):
                found.add("".join(parts))
    return found


def is_wrong(key: ConfigKey, is_named: bool) -> bool:
    return is_named == bool(key.inert) and key.name not in NAMED_WITHOUT_EFFECT


@pytest.mark.slow
def test_every_key_of_a_topic_acts_or_says_why_not(named: re.Pattern[str]) -> None:
    wrong = [name for name, key in TOPIC.items() if is_wrong(key, bool(named.fullmatch(name)))]
    assert wrong == [], "give these their reason in the table, or take it away"


def test_every_key_of_the_broker_acts_or_says_why_not(named: re.Pattern[str]) -> None:
    of_topics = {
        synonym
        for name, key in TOPIC.items()
        if key.broker is not None and named.fullmatch(name)
        for synonym in synonyms(key.broker)
    }
    keys = BROKER | OWN
    wrong = [name for name, key in keys.items() if is_wrong(key, name in of_topics or bool(named.fullmatch(name)))]
    assert wrong == [], "give these their reason in the table, or take it away"
