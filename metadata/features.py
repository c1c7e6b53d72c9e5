"""The features of a cluster: levels that all nodes must support before they take effect (KIP-584, KIP-1022).

`built` is the highest level that this node implements, advertises and accepts: a node does not take part in a cluster in
which a higher level is finalized.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from . import metadata_version as levels
from .image import METADATA_VERSION

if TYPE_CHECKING:
    from .image import FeaturesImage

KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
TRANSACTION_VERSION = "transaction.version"
STREAMS_VERSION = "streams.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"


class Feature(NamedTuple):
    minimum: int
    built: int
    #: The level in a newly formatted directory.
    formatted: int
    #: The metadata.version that each level above 0 requires; 0 if none.
    needs_metadata_version: int = 0


FEATURES: dict[str, Feature] = {
    ELIGIBLE_LEADER_REPLICAS: Feature(0, 1, 1, levels.ELIGIBLE_LEADER_REPLICAS),
    GROUP_VERSION: Feature(0, 1, 1),
    KRAFT_VERSION: Feature(0, 1, 1),
    METADATA_VERSION: Feature(levels.MINIMUM, levels.MAXIMUM, levels.DEFAULT),
    SHARE_VERSION: Feature(0, 2, 1),
    STREAMS_VERSION: Feature(0, 1, 1),
    TRANSACTION_VERSION: Feature(0, 2, 2),
}


class UnknownLevel(ValueError):
    """A new directory cannot have this level of a feature; the text is Kafka's."""


def formatted_levels(asked: Mapping[str, int]) -> dict[str, int]:
    """Returns the feature levels of a new directory, given the requested ones; by name. Raises UnknownLevel."""
    for name, level in asked.items():
        feature = FEATURES.get(name)
        if feature is None:
            raise UnknownLevel(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(FEATURES))}")
        is_fixed = name == KRAFT_VERSION and level != feature.formatted
        if is_fixed or not feature.minimum <= level <= feature.built:
            raise UnknownLevel(f"No feature:{name} with feature level {level}")
    formatted = {name: asked.get(name, feature.formatted) for name, feature in sorted(FEATURES.items())}
    for name, level in formatted.items():
        needed = FEATURES[name].needs_metadata_version
        if level and formatted[METADATA_VERSION] < needed:
            if name in asked:
                words = f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
                raise UnknownLevel(words)
            formatted[name] = 0
    return formatted


def supported_features() -> dict[str, tuple[int, int]]:
    """Returns the (lowest, highest) supported level of each feature, by name."""
    return {name: (feature.minimum, feature.built) for name, feature in FEATURES.items() if feature.built > 0}


def finalized_features(image: FeaturesImage, kraft_version: int) -> dict[str, int]:
    """Returns the finalized levels as ApiVersions lists them, without levels of 0. By name."""
    every = dict(image.finalized) | {KRAFT_VERSION: kraft_version}
    return {name: level for name, level in sorted(every.items()) if level > 0}
