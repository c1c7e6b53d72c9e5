"""The features of a cluster: levels that all nodes must support before what they bring may be used (KIP-584, KIP-1022).

`built` is what this broker does; that is what it offers. `known` is what it can carry: a directory in which Apache Kafka has
finalized a level that is known here is opened, and its records kept, though what the level brings may not be there yet.
"""

from __future__ import annotations

from typing import NamedTuple

from . import metadata_version as levels
from .image import METADATA_VERSION, FeaturesImage

KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
TRANSACTION_VERSION = "transaction.version"
STREAMS_VERSION = "streams.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"


class Feature(NamedTuple):
    minimum: int
    built: int
    known: int
    #: What a new directory is formatted with.
    formatted: int
    #: The metadata.version that each level above 0 needs, where it needs one.
    needs_metadata_version: int = 0


FEATURES: dict[str, Feature] = {
    ELIGIBLE_LEADER_REPLICAS: Feature(0, 1, 1, 1, levels.ELIGIBLE_LEADER_REPLICAS),
    GROUP_VERSION: Feature(0, 1, 1, 1),
    KRAFT_VERSION: Feature(0, 1, 1, 1),
    METADATA_VERSION: Feature(levels.MINIMUM, levels.MAXIMUM, levels.MAXIMUM, levels.DEFAULT),
    SHARE_VERSION: Feature(0, 2, 2, 1),
    STREAMS_VERSION: Feature(0, 1, 1, 1),
    TRANSACTION_VERSION: Feature(0, 2, 2, 2),
}


def supported_features(finalized: FeaturesImage) -> dict[str, tuple[int, int]]:
    """Name to the (lowest, highest) level that this node supports, among them the finalized ones. By name."""
    ranges = {name: (feature.minimum, max(feature.built, finalized.level(name))) for name, feature in FEATURES.items()}
    return {name: (low, high) for name, (low, high) in ranges.items() if high > 0}


def finalized_features(image: FeaturesImage, kraft_version: int) -> dict[str, int]:
    """Name to finalized level, as ApiVersions shows them; levels of 0 are not shown. By name."""
    every = dict(image.finalized) | {KRAFT_VERSION: kraft_version}
    return {name: level for name, level in sorted(every.items()) if level > 0}


def unknown_feature(image: FeaturesImage) -> str | None:
    """Why a directory whose image this is cannot be opened, or None."""
    for name, level in sorted(image.finalized.items()):
        feature = FEATURES.get(name)
        if feature is None or not feature.minimum <= level <= feature.known:
            highest = 0 if feature is None else feature.known
            return f"{name} is finalized at level {level}; this broker knows levels up to {highest}"
    return None
