"""CreateTopics with the ids of a mirror's source: each created topic has the id of its own, and none has a reserved id."""

from __future__ import annotations

from itertools import product

import pytest
from odradek.metadata.mirror_keys import MIRROR_TOPIC_ID
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.uuids import METADATA_TOPIC_ID, ZERO_UUID, uuid_to_text

from tests.replication.controller_transcript import Transcript

NEW, OTHER, EXISTING = (bytes([number]) * 16 for number in (1, 2, 3))
IDS = (NEW, OTHER, EXISTING, ZERO_UUID, METADATA_TOPIC_ID)
#: The last one uses a topic's id after its own checks have failed.
INVALID = "no name"


def topic(name: str, topic_id: bytes) -> CreatableTopic:
    configs = [CreatableTopicConfig(MIRROR_TOPIC_ID, uuid_to_text(topic_id))]
    return CreatableTopic(name, 1, 1, configs=configs)


def cluster() -> Transcript:
    found = Transcript()
    found.command("broker 1")
    found.ask(CreateTopicsRequest([topic("existing", EXISTING)], 30_000), 7)
    return found


@pytest.mark.parametrize("ids", [*product(IDS, repeat=2)])
@pytest.mark.parametrize("first", ["a", INVALID])
def test_created_topics_have_ids_of_their_own(first: str, ids: tuple[bytes, bytes]) -> None:
    found = cluster()
    request = CreateTopicsRequest([topic(name, id_) for name, id_ in zip((first, "b"), ids, strict=True)], 30_000)
    result = found.controller.handle(request, 7)
    found._replay(result.records)
    assert isinstance(result.response, CreateTopicsResponse)
    created = {one.name: one.topic_id for one in result.response.topics if one.error_code == ErrorCode.NONE}
    image = found.controller.image
    assert created == {name: one.id for name, one in image.topics.by_name.items() if name != "existing"}
    assert len(image.topics.by_id) == len(image.topics.by_name) and not {*image.topics.by_id} & {*IDS[3:]}
    assert ("a" in created) == (first == "a" and ids[0] in (NEW, OTHER))
    assert ("b" in created) == (ids[1] in (NEW, OTHER) and ("a" not in created or ids[0] != ids[1]))


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (EXISTING, ErrorCode.INVALID_REQUEST, "A topic with the id AwMDAwMDAwMDAwMDAwMDAw exists"),
        (NEW, ErrorCode.INVALID_REQUEST, "Another topic of the request has the id AQEBAQEBAQEBAQEBAQEBAQ"),
        (ZERO_UUID, ErrorCode.INVALID_CONFIG, "AAAAAAAAAAAAAAAAAAAAAA is a reserved id"),
        (METADATA_TOPIC_ID, ErrorCode.INVALID_CONFIG, "AAAAAAAAAAAAAAAAAAAAAQ is a reserved id"),
    ],
)
def test_error_names_the_id_and_the_reason(asked: bytes, code: ErrorCode, words: str) -> None:
    request = CreateTopicsRequest([topic("a", NEW), topic("b", asked)], 30_000)
    response = cluster().controller.handle(request, 7).response
    assert isinstance(response, CreateTopicsResponse)
    made, refused = response.topics
    assert (made.error_code, refused.error_code) == (ErrorCode.NONE, code)
    assert refused.error_message is not None and words in refused.error_message
