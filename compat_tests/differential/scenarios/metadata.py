"""Metadata: topics by name and id, automatic creation, the cluster."""

from __future__ import annotations

from ..scenario import ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID, topic


def is_created(response: object) -> bool:
    return all(one.error_code == 0 for one in response.topics)  # type: ignore[attr-defined]


SCENARIOS = [
    scenario("Metadata", "the cluster alone", ask("Metadata", topics=[]), versions="1+"),
    scenario("Metadata", "a topic by its name", topic(partitions=3), ask("Metadata", topics=[{"name": "$t"}])),
    scenario(
        "Metadata",
        "a topic by its id",
        topic(partitions=2),
        ask("Metadata", topics=[{"name": None, "topic_id": "@t"}]),
        versions="12+",
    ),
    scenario(
        "Metadata",
        "names and ids may not both be given",
        topic(),
        ask("Metadata", topics=[{"name": "$t", "topic_id": "@t"}]),
        versions="10+",
    ),
    scenario(
        "Metadata",
        "ids before version 12 are refused",
        topic(),
        ask("Metadata", topics=[{"name": None, "topic_id": "@t"}]),
        versions="10-11",
    ),
    scenario(
        "Metadata",
        "an id that no topic has",
        ask("Metadata", topics=[{"name": None, "topic_id": NO_SUCH_ID}]),
        versions="12+",
    ),
    scenario(
        "Metadata",
        "a topic that is not there and may not be made",
        ask("Metadata", topics=[{"name": "$none"}], allow_auto_topic_creation=False),
        versions="4+",
    ),
    scenario(
        "Metadata",
        "a topic that is not there is made",
        prepare("Metadata", topics=[{"name": "$auto"}], until=is_created),
        ask("Metadata", topics=[{"name": "$auto"}]),
    ),
    scenario(
        "Metadata",
        "the response that makes a topic says that it has no leader yet",
        ask("Metadata", topics=[{"name": "$auto-first"}]),
    ),
    scenario(
        "Metadata",
        "names that no topic may have",
        *(ask("Metadata", topics=[{"name": name}]) for name in ("", ".", "..", "a b", "x" * 250, "ä")),
    ),
    scenario("Metadata", "a name asked for twice", topic(), ask("Metadata", topics=[{"name": "$t"}, {"name": "$t"}])),
    scenario(
        "Metadata",
        "authorized operations are told when asked for",
        topic(),
        ask(
            "Metadata",
            topics=[{"name": "$t"}],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        versions="8+",
    ),
    scenario(
        "Metadata",
        "an internal topic is marked as such",
        prepare("FindCoordinator", key="g", coordinator_keys=["g"]),
        prepare("Metadata", topics=[{"name": "__consumer_offsets"}], until=is_created),
        ask("Metadata", topics=[{"name": "__consumer_offsets"}]),
    ),
]
