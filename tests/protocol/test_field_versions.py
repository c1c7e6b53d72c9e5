"""The schema has the versions of each field, and one file those of behaviour: no number stands beside them."""

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
PACKAGES = ("server", "coordinator", "replication", "protocol", "client", "admin")
#: The home of versions in which behaviour begins, and that of levels of features.
HOMES = ("protocol/behaviour_versions.py", "protocol/feature_levels.py")
#: Versions of formats of our own, and of records: they change with what is written, not with the schema.
FORMATS = {
    "admin/pipeline_progress.py: _VERSION = 1",
    "coordinator/groups/share/persister_requests.py: INTERNAL_VERSION = 0",
    "coordinator/groups/streams/description.py: REPORTED_VERSION = 1",
    "coordinator/groups/streams/description.py: TOPOLOGY_VERSION = 0",
    "coordinator/record_framing.py: _KEY_VERSION = 0",
    "server/controller/envelopes.py: _PRINCIPAL_VERSION = 0",
}
#: Constants that are named as first versions.
_NAME = re.compile(r"_?(?:FIRST_)?(?:VERSION_)?WITH_(\w+)|_?(\w+)_VERSION")

_VERSION_NAME = re.compile(r"(?:.*_)?VERSION(?:_WITH_\w+)?|_?(?:FIRST_)?WITH_\w+|(?:.*_)?SINCE")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


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


def numbers_of_versions(tree: ast.Module) -> list[str]:
    """Returns constants that are named as versions and have numbers, and comparisons of a version with a number over 0."""
    numbers = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple):
            names = [one.id for one in ast.walk(node.targets[0]) if isinstance(one, ast.Name)]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            are_numbers = any(isinstance(one, ast.Constant) and type(one.value) is int for one in values)
            if are_numbers and any(_VERSION_NAME.fullmatch(name) for name in names):
                numbers.append(ast.unparse(node))
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Compare) and isinstance(inner.ops[0], _ORDERS):
            left, right = inner.left, inner.comparators[0]
            name = left.attr if isinstance(left, ast.Attribute) else left.id if isinstance(left, ast.Name) else ""
            if name == "version" and isinstance(right, ast.Constant) and type(right.value) is int and right.value > 0:
                numbers.append(ast.unparse(inner))
    return numbers


@pytest.mark.parametrize(
    "line",
    ["ADDING_VERSION = 5", "_ASK_VERSION, _GIVE_VERSION = (1, 0)", "FIRST_VERSION_WITH_ZSTD = 7", "call.version >= 4"],
)
def test_number_of_a_version_is_found(line: str) -> None:
    assert numbers_of_versions(ast.parse(line)) == [line]


@pytest.mark.parametrize("line", ["_VERSION_BYTES = 2", "METADATA_VERSION = 'metadata.version'", "version < 0"])
def test_number_of_another_noun_is_not_found(line: str) -> None:
    assert numbers_of_versions(ast.parse(line)) == []


def test_versions_of_behaviour_stand_in_their_home() -> None:
    chosen = [file for file in files("*.py") if file.split("/")[0] in PACKAGES and file not in HOMES]
    assert chosen
    beside = {f"{file}: {number}" for file in chosen for number in numbers_of_versions(tree_of(file))}
    assert beside == FORMATS, "use the schema, or give the behaviour a range in protocol/behaviour_versions.py"
