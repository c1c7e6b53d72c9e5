"""Checks of settings with which acknowledged records can be lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .finding import WARNING, Finding

_FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


def check_properties(file: Path) -> Iterator[Finding]:
    """Settings of a server.properties with which data can be lost. Raises Misused when it cannot be read."""
    from ...client.properties import read_client_properties

    yield from dangers(str(file), read_client_properties(file), brokers=None)


def dangers(subject: str, values: Mapping[str, str | None], *, brokers: int | None) -> Iterator[Finding]:
    """Findings for a broker's configs. `brokers` None: their number is not known, so more than one is assumed."""
    several = brokers is None or brokers > 1

    def found(key: str, words: str, advice: str) -> Finding:
        return Finding(WARNING, "setting", f"{subject}: {key}={values.get(key)}", words, advice)

    if values.get("unclean.leader.election.enable") == "true":
        words = "a replica that lacks acknowledged records may become leader"
        yield found("unclean.leader.election.enable", words, "set it to false")
    if several:
        yield from _of_several(values, found_factors=(brokers or 3), subject=subject)
    if values.get("delete.topic.enable") == "false":
        yield found("delete.topic.enable", "topics cannot be deleted", "set it to true, unless this is intended")
    if values.get("log.cleaner.enable") == "false":
        yield found(
            "log.cleaner.enable", "compacted topics, committed offsets among them, grow forever", "set it to true"
        )


def _of_several(values: Mapping[str, str | None], *, found_factors: int, subject: str) -> Iterator[Finding]:
    for key in _FACTORS:
        if values.get(key) == "1":
            words = "new topics have one replica: their records are lost when a broker is lost"
            advice = f"set it to {min(3, found_factors)}"
            yield Finding(WARNING, "setting", f"{subject}: {key}=1", words, advice)
    for key in ("min.insync.replicas", "transaction.state.log.min.isr"):
        if values.get(key) == "1" and found_factors > 2:
            words = "a write is acknowledged when one replica has it"
            yield Finding(WARNING, "setting", f"{subject}: {key}=1", words, "set it to 2, with three replicas")
