"""The error of a change to a topic that follows another cluster."""

from __future__ import annotations

from ...metadata.mirror_keys import SWITCHED


def read_only(topic: str, link: str) -> str:
    """The words of POLICY_VIOLATION, which clients do not retry."""
    if link.startswith(SWITCHED):
        name = link.removeprefix(SWITCHED)
        return (
            f"Topic {topic} was switched to the cluster that followed this one by link {name} and is read-only here: write "
            f"to that cluster."
        )
    return (
        f"Topic {topic} is a mirror of link {link} and read-only: write to its source, or make it writable here with "
        f"`odradek mirror switch {link}` or, if the source is lost, `odradek mirror fail-over {link}`."
    )
