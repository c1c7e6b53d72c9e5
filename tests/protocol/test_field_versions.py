"""The schema has the versions of each field: no number stands beside it."""

from __future__ import annotations

import ast
import re

import pytest
from odradek.protocol.apis import APIS
from odradek.protocol.messages.fetch import FetchRequest, FetchTopic
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.schema import ArrayOf, Message

from tests.harness.sources import files, tree_of

#: Packages whose constants are compared with the version of a request.
PACKAGES = ("server", "coordinator", "replication", "protocol")
#: Constants that are named as first versions.
_NAME = re.compile(r"_?(?:FIRST_)?(?:VERSION_)?WITH_(\w+)|_?(\w+)_VERSION")


def test_versions_with_a_field_are_those_of_the_schema() -> None:
    assert HeartbeatRequest.versions_with("group_id").start == 0
    assert [version for version in range(20) if version in FetchTopic.versions_with("topic_id")] == [*range(13, 20)]
    assert [version for version in range(20) if version in FetchTopic.versions_with("topic")] == [*range(13)]
    assert OffsetFetchResponse.versions_with("error_code") == range(2, 8)


def test_flexible_versions_are_those_of_the_schema() -> None:
    assert 11 not in FetchRequest.flexible_versions()
    assert 12 in FetchRequest.flexible_versions()
    assert not SaslHandshakeRequest.flexible_versions()


def test_misspelt_field_is_an_error() -> None:
    with pytest.raises(AttributeError, match="FetchTopic has no field topic_idd"):
        FetchTopic.versions_with("topic_idd")


def first_versions() -> set[tuple[str, int]]:
    """Returns the fields that later versions than the first have added, with that version."""
    seen: set[type[Message]] = set()
    added: set[tuple[str, int]] = set()
    waiting = [message for api in APIS.values() for message in (api.request, api.response)]
    while waiting:
        message = waiting.pop()
        if message in seen:
            continue
        seen.add(message)
        for field in message.SCHEMA.fields:
            added.add((field.name, field.versions.low))
            inner = field.type.element if isinstance(field.type, ArrayOf) else field.type
            if isinstance(inner, type):
                waiting.append(inner)
    return {(name, version) for name, version in added if version > 0}


def numbers_beside_the_schema(tree: ast.Module, fields: set[tuple[str, int]]) -> list[str]:
    """Returns constants that are named after a field and have the version that added it."""
    numbers = []
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        name, value = ast.unparse(node.targets[0]), node.value.value
        match = _NAME.fullmatch(name)
        if match is None or type(value) is not int:
            continue
        words = (match[1] or match[2]).lower()
        if {(words, value), (words.removesuffix("s"), value), (f"{words}s", value)} & fields:
            numbers.append(f"{name} = {value}")
    return numbers


@pytest.mark.parametrize(
    "line",
    [
        "TOPIC_ID_VERSION = 13",
        "FIRST_VERSION_WITH_TOPIC_IDS = 13",
        "_WITH_TRANSACTIONS = 4",
        "SKIP_ASSIGNMENT_VERSION = 9",
    ],
)
def test_number_of_a_field_is_found(line: str) -> None:
    assert numbers_beside_the_schema(ast.parse(line), first_versions()) == [line]


@pytest.mark.parametrize("line", ["TOPIC_ID_VERSION = 11", "FIRST_VERSION_WITH_ZSTD = 7", "TOPIC_IDS = 13"])
def test_other_numbers_are_not_found(line: str) -> None:
    assert numbers_beside_the_schema(ast.parse(line), first_versions()) == []


def test_no_constant_repeats_the_version_of_a_field() -> None:
    fields = first_versions()
    chosen = [file for file in files("*.py") if file.split("/")[0] in PACKAGES]
    assert chosen
    repeated = {file: numbers for file in chosen if (numbers := numbers_beside_the_schema(tree_of(file), fields))}
    assert not repeated, f"ask the schema: `{{Message}}.versions_with(field)`: {repeated}"
