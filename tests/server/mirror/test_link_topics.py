"""Topics of a link before a controller that refuses some of what the link asks for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from immutables import Map
from odradek.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionImage, TopicImage, TopicsImage
from odradek.metadata.mirror_keys import MIRROR_NAME, MIRROR_TOPIC_ID
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs_results import AlterConfigsResourceResponse
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.incremental_alter_configs import AlterConfigsResource
from odradek.replication.mirror.link import parse_link
from odradek.server.mirror import topics
from odradek.server.mirror.portions import Portions
from odradek.server.mirror.source import SourceLeader, SourceTopic
from odradek.server.mirror.topics import LinkTopics

from tests.server.harness.images import cache_of
from tests.server.harness.nodes import node_of

LINK = parse_link("dr", {"bootstrap.servers": "source:9092", "topics": ".*"})
PARTITION = PartitionImage((1,), (1,), 1, 0, 0, (bytes(16),))


class Controller:
    """The port of a link to a broker whose controller refuses changes of the topics in `refused`."""

    def __init__(self, *mirrors: SourceTopic) -> None:
        by_name = {one.name: TopicImage(one.name, one.id, Map({0: PARTITION})) for one in mirrors}
        configs = {
            (TOPIC_RESOURCE, one.name): Map({MIRROR_NAME: "dr", MIRROR_TOPIC_ID: one.id_text}) for one in mirrors
        }
        image = MetadataImage(topics=TopicsImage(Map(by_name)), configs=Map(configs))
        self.node = node_of(metadata=cache_of(image), cluster_id="here")
        self.refused: set[str] = set()
        self.changed: set[str] = set()

    def link_of(self, topic: str) -> str:
        return self.node.metadata.image.config(TOPIC_RESOURCE, topic).get(MIRROR_NAME, "")

    async def decide(self, request: Any, version: int, kind: Any) -> Any:
        if isinstance(request, CreateTopicsRequest):
            return CreateTopicsResponse(
                topics=[
                    CreatableTopicResult(name=one.name, error_code=self._outcome(one.name)) for one in request.topics
                ]
            )
        if isinstance(request, CreatePartitionsRequest):
            results = [CreatePartitionsTopicResult(one.name, *self._words(one.name)) for one in request.topics]
            return CreatePartitionsResponse(results=results)
        raise AssertionError(request)

    async def alter_configs(self, *resources: AlterConfigsResource) -> list[AlterConfigsResourceResponse]:
        return [
            AlterConfigsResourceResponse(*self._words(one.resource_name), one.resource_type, one.resource_name)
            for one in resources
        ]

    def _outcome(self, topic: str) -> int:
        if topic in self.refused:
            return ErrorCode.POLICY_VIOLATION
        self.changed.add(topic)
        return 0

    def _words(self, topic: str) -> tuple[int, str | None]:
        return self._outcome(topic), "the policy says no" if topic in self.refused else None


def source_topics(count: int, partitions: int = 1) -> dict[str, SourceTopic]:
    names = [f"orders-{number}" for number in range(count)]
    leaders = tuple(SourceLeader(1, 0) for _ in range(partitions))
    return {name: SourceTopic(name, name.encode().ljust(16, b"-"), leaders) for name in names}


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MOST_AT_ONCE", 2)


def link_topics(controller: Controller) -> LinkTopics:
    return LinkTopics(LINK, controller)  # type: ignore[arg-type]


def test_refused_topics_do_not_starve_those_behind_them() -> None:
    async def story() -> None:
        controller, every = Controller(), source_topics(5)
        controller.refused = {"orders-0", "orders-1", "orders-2"}
        of_link = link_topics(controller)
        for _ in range(3):
            await of_link.make(of_link.missing(every), {}, "there")
        assert controller.changed == {"orders-3", "orders-4"}
        assert of_link.refused.keys() == controller.refused
        controller.refused = set()  # and the refused ones have further turns
        for _ in range(3):
            await of_link.make(of_link.missing(every), {}, "there")
        assert controller.changed == every.keys()

    asyncio.run(story())


def test_refused_topic_that_the_source_has_no_more_is_forgotten() -> None:
    async def story() -> None:
        controller, every = Controller(), source_topics(1)
        controller.refused = {"orders-0"}
        of_link = link_topics(controller)
        await of_link.make(of_link.missing(every), {}, "there")
        assert of_link.refused
        assert of_link.missing({}) == [] and not of_link.refused

    asyncio.run(story())


def test_refused_partitions_are_named_and_do_not_starve_others() -> None:
    async def story() -> None:
        every = source_topics(4, partitions=2)
        controller = Controller(*every.values())
        controller.refused = {"orders-0", "orders-1"}
        of_link = link_topics(controller)
        for _ in range(2):
            await of_link.grow(every)
        assert controller.changed == {"orders-2", "orders-3"}
        reason = "the policy says no"
        assert of_link.unfollowed == {f"the number of partitions of topic orders-{one}": reason for one in range(2)}
        controller.refused = {"orders-1"}
        await of_link.grow(every)
        assert of_link.unfollowed == {"the number of partitions of topic orders-1": reason}
        await of_link.grow(source_topics(4, partitions=1))
        assert of_link.unfollowed == {}

    asyncio.run(story())


def test_refused_configs_are_named_and_do_not_starve_others() -> None:
    async def story() -> None:
        every = source_topics(5)
        controller = Controller(*every.values())
        controller.refused = {"orders-0", "orders-1", "orders-2"}
        of_link, wanted = link_topics(controller), {topic: {"retention.ms": "1"} for topic in every}
        for _ in range(3):
            await of_link.follow_configs(wanted)
        assert controller.changed == {"orders-3", "orders-4"}
        assert of_link.unfollowed.keys() == {f"a config of topic orders-{one}" for one in range(3)}
        await of_link.follow_configs({})
        assert of_link.unfollowed == {}

    asyncio.run(story())


def test_each_item_has_its_turn_while_others_come_and_go() -> None:
    portions: Portions[str] = Portions(3, str)
    assert portions.portion("abc") == ["a", "b", "c"]
    assert portions.portion("abcdefgh") == ["a", "b", "c"]
    assert portions.portion("abxyzdefgh") == ["d", "e", "f"]
    assert portions.portion("abch") == ["h", "a", "b"]
    assert portions.portion("") == []
