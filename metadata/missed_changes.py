"""The delta of a part that failed on earlier deltas: all that it may lack, and all that it may have too much.

A part that fails on a delta may have followed some of it. The difference of two images does not show what came with that
delta and has gone since, such as a topic that was created and deleted: it is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .delta import MetadataDelta
from .replacing import replace

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from .image import MetadataImage

K = TypeVar("K")
V = TypeVar("V")


def missed_changes(
    followed: MetadataImage, tried: MetadataDelta, image: MetadataImage
) -> Generator[None, None, MetadataDelta]:
    """Returns a delta that leads to `image` from any state between `followed`, the last image that the part followed, and
    the end of `tried`, the last delta that it failed on. Yields once per partition, as `replace`.
    """
    missed = MetadataDelta(followed)
    yield from replace(missed, image)
    missed.topics.apply()
    _add_gone_topics(missed, tried, image)
    for name in tried.features:
        missed.features.setdefault(name, image.features.level(name))
    _add(missed.cluster.brokers, tried.cluster.brokers, image.cluster.brokers)
    _add(missed.cluster.controllers, tried.cluster.controllers, image.cluster.controllers)
    _add_each(missed.configs, tried.configs, image.configs)
    _add_each(missed.client_quotas, tried.client_quotas, image.client_quotas)
    _add(missed.acls, tried.acls, image.acls)
    _add(missed.scram, tried.scram, image.scram)
    _add(missed.delegation_tokens, tried.delegation_tokens, image.delegation_tokens)
    return missed


def _add_gone_topics(missed: MetadataDelta, tried: MetadataDelta, image: MetadataImage) -> None:
    gone = {**tried.topics.deleted, **{id_: topic.apply() for id_, topic in tried.topics.changed.items()}}
    for topic_id, topic in gone.items():
        if topic_id not in image.topics.by_id:
            missed.topics.deleted.setdefault(topic_id, topic)


def _add(missed: dict[K, V | None], tried: Mapping[K, V | None], now: Mapping[K, V]) -> None:
    for key in tried:
        missed.setdefault(key, now.get(key))


def _add_each(
    missed: dict[K, dict[str, V | None]], tried: Mapping[K, Mapping[str, V | None]], now: Mapping[K, Mapping[str, V]]
) -> None:
    for resource, values in tried.items():
        _add(missed.setdefault(resource, {}), values, now.get(resource, {}))
