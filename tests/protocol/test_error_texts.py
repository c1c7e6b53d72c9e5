"""Error texts in responses are cut to a limit; names, which are data, are never cut."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.apis import APIS
from odradek.protocol.codec import (
    MalformedMessage,
    decode,
    encode,
    encode_pieces,
    interpreted_decode,
    interpreted_encode,
)
from odradek.protocol.messages.add_raft_voter import AddRaftVoterResponse
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from odradek.protocol.messages.update_features import UpdateFeaturesResponse
from odradek.protocol.primitives import CUT_SIGN, MAX_ERROR_TEXT_BYTES, MAX_STRING_BYTES
from odradek.protocol.schema import ArrayOf, Field, Message, Scalar

LONG = "y" * MAX_STRING_BYTES


def every_text(cls: type[Message]) -> list[Field]:
    """Yields the error text fields of a message and its nested structures."""
    found = []
    for field in cls.SCHEMA.fields:
        kind = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(kind, Scalar):
            found += [field] if field.name.endswith("error_message") or field.name == "status_detail" else []
        else:
            found += every_text(kind)
    return found


def filled(cls: type[Message], version: int, text: str) -> Any:
    """Returns a message with one element in every array and `text` in every error text field."""
    made = cls()
    for field in cls.SCHEMA.fields:
        if version not in field.versions:
            continue
        if isinstance(field.type, Scalar):
            if field.type.is_error_text:
                setattr(made, field.name, text)
            elif field.type.name == "records":
                setattr(made, field.name, b"")
        elif isinstance(field.type, ArrayOf):
            if not isinstance(field.type.element, Scalar | ArrayOf):
                setattr(made, field.name, [filled(field.type.element, version, text)])
        else:
            setattr(made, field.name, filled(field.type, version, text))
    return made


def test_every_error_message_field_is_declared_as_error_text() -> None:
    texts = [(api.name, field) for api in APIS.values() for field in every_text(api.response)]
    assert len(texts) > 50
    assert not [f"{name}.{field.name}" for name, field in texts if not field.type.is_error_text]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text", [LONG * 3, "é" * MAX_STRING_BYTES, "日" * 20_000, "\udcff" * 5_000, "a" + "😀" * 9_000]
)
def test_longest_error_texts_of_all_responses_encode_in_every_version(text: str) -> None:
    for api in [api for api in APIS.values() if every_text(api.response)]:
        for version in range(api.versions.low, api.versions.high + 1):
            message = filled(api.response, version, text)
            lowered = encode(message, version)
            assert lowered == interpreted_encode(message, version) == b"".join(encode_pieces(message, version))
            decode(api.response, version, lowered)


def test_cut_text_ends_at_character_boundary_with_marker() -> None:
    for text in (LONG, "é" * 4_000, "x" + "é" * 4_000, "日本" * 4_000, "😀" * 4_000):
        encoded = encode(AddRaftVoterResponse(error_message=text), 0)
        shown = decode(AddRaftVoterResponse, 0, encoded)[0].error_message
        assert shown is not None and shown.endswith(CUT_SIGN) and "\ufffd" not in shown
        assert text.startswith(shown.removesuffix(CUT_SIGN))
        assert MAX_ERROR_TEXT_BYTES - 4 < len(shown.encode()) <= MAX_ERROR_TEXT_BYTES


@pytest.mark.parametrize("text", ["", "no such topic", "é" * (MAX_ERROR_TEXT_BYTES // 2)])
def test_text_within_limit_is_unchanged(text: str) -> None:
    encoded = encode(UpdateFeaturesResponse(error_message=text), 1)
    assert decode(UpdateFeaturesResponse, 1, encoded)[0].error_message == text


def test_names_are_not_cut() -> None:
    for version in (1, 6):
        encoded = encode(DeleteTopicsResponse(responses=[DeletableTopicResult(name=LONG)]), version)
        assert decode(DeleteTopicsResponse, version, encoded)[0].responses[0].name == LONG


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("size", [10_922, 10_923, MAX_STRING_BYTES])
def test_invalid_utf8_text_decodes_only_if_it_can_be_encoded(version: int, size: int) -> None:
    good = encode(DeleteGroupsRequest(groups_names=["y" * size]), version)
    bad = good.replace(b"y", b"\xff")
    assert decode(DeleteGroupsRequest, version, good)[0].groups_names == ["y" * size]
    if 3 * size <= MAX_STRING_BYTES:
        read, _ = decode(DeleteGroupsRequest, version, bad)
        assert read == interpreted_decode(DeleteGroupsRequest, version, bad)[0]
        encode(read, version)
    else:
        with pytest.raises(MalformedMessage, match="when replaced"):
            decode(DeleteGroupsRequest, version, bad)
