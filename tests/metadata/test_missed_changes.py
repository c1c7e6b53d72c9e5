"""Changes that a part has missed which failed on some deltas: they lead from any state on the way to the newest image."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.metadata.missed_changes import missed_changes
from odradek.protocol.schema import Message
from odradek.server.runtime.sliced_work import run_to_completion

from tests.harness.examples import examples
from tests.metadata.image_records_strategy import histories

EXAMPLES = settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))


def delta_of(image: MetadataImage, records: list[Message]) -> MetadataDelta:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta


@EXAMPLES
@given(histories(30), st.data())
def test_missed_changes_name_all_that_any_failed_delta_named(history: list[Message], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(history)), min_size=3, max_size=5)))
    followed = delta_of(EMPTY_IMAGE, history[: cuts[0]]).apply(0, 1, 1)
    tried = delta_of(followed, history[cuts[0] : cuts[1]])
    images = [tried.apply(0, 1, 1)]
    for start, end in pairwise(cuts[1:]):
        before, named = images[-1], tried
        images.append(delta_of(before, history[start:end]).apply(0, 1, 1))
        tried = run_to_completion(missed_changes(followed, named, images[-1]))
        image = images[-1]
        assert tried.apply(0, 1, 1) == image
        for old, new, now in (
            (named.acls, tried.acls, image.acls),
            (named.scram, tried.scram, image.scram),
            (named.delegation_tokens, tried.delegation_tokens, image.delegation_tokens),
            (named.cluster.brokers, tried.cluster.brokers, image.cluster.brokers),
            (named.cluster.controllers, tried.cluster.controllers, image.cluster.controllers),
        ):
            assert all(new[key] == now.get(key) for key in old)  # type: ignore[index, attr-defined]
        for resource, keys in named.configs.items():
            assert all(tried.configs[resource][key] == image.config(*resource).get(key) for key in keys)
        for entity, values in named.client_quotas.items():
            now = image.client_quotas.get(entity, {})
            assert all(tried.client_quotas[entity][key] == now.get(key) for key in values)
        assert all(tried.features[name] == image.features.level(name) for name in named.features)
        come_and_gone = {*named.topics.changed, *named.topics.deleted} - {*image.topics.by_id}
        assert come_and_gone <= tried.topics.deleted.keys()
