"""Error responses built from the schemas equal those of Apache Kafka's request classes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode, encode
from odradek.protocol.error_responses import error_response, has_place_for_errors
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message
from odradek.testing.faults.striking import ITEM_ERRORS

from tests.protocol.codec_oracle import CodecOracle
from tests.testing.sample_requests import sample_request

ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER
#: Fields in which Odradek's responses differ, with the reason.
DIFFERENT = {
    # Kafka also sets the error of the whole request: clients then ignore the errors of partitions and topics.
    "Fetch": (".error_code", ".session_id", ".responses"),
    "ShareFetch": (".error_code", ".responses"),
    "ShareAcknowledge": (".error_code", ".responses"),
    "Metadata": (".error_code",),
    "ElectLeaders": (".error_code",),
    "AlterPartitionReassignments": (".error_code",),
    # Kafka repeats the requested resources beside an error of the whole request, and an anonymous owner.
    "ListPartitionReassignments": (".topics",),
    "DescribeUserScramCredentials": (".results",),
    "DescribeClientQuotas": (".entries",),
    "CreateDelegationToken": (".principal", ".token_requester", ".issue", ".expiry", ".max_timestamp"),
}
CASES = [
    (api, version) for api in APIS.values() for version in range(api.versions.low, api.versions.high + 1)
]  # fmt: skip


def flat(message: Message, path: str = "") -> dict[str, Any]:
    """Returns all values by their paths, except error messages, in any order of arrays."""
    found: dict[str, Any] = {}
    for field in message.SCHEMA.fields:
        value, at = getattr(message, field.name), f"{path}.{field.name}"
        if field.name == "error_message":
            continue
        if isinstance(value, list):
            found[f"{at}[]"] = len(value)
            for index, item in enumerate(sorted(value, key=repr)):
                found.update(flat(item, f"{at}[{index}]") if isinstance(item, Message) else {f"{at}[{index}]": item})
        elif isinstance(value, Message):
            found.update(flat(value, at))
        else:
            found[at] = bytes(value) if isinstance(value, memoryview) else value
    return found


def test_error_responses_equal_those_of_apache_kafka(codec_oracle: CodecOracle) -> None:
    wrong = []
    for api, version in CASES:
        request = sample_request(api, version)
        ours = decode(api.response, version, encode(_made(api, version, request), version))[0]
        apache_name = re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).upper()
        response = codec_oracle.error_response(apache_name, version, encode(request, version), ERROR)
        mine, theirs = flat(ours), flat(decode(api.response, version, response)[0])
        different = {path for path in mine.keys() | theirs.keys() if mine.get(path) != theirs.get(path)}
        wrong += [(api.name, version, p) for p in different if not p.startswith(DIFFERENT.get(api.name, ("-",)))]
    assert not wrong


@pytest.mark.parametrize("name", ["Fetch", "ShareFetch", "ShareAcknowledge", "Metadata"])
def test_errors_of_items_stand_at_the_items(name: str) -> None:
    for api, version in CASES:
        if api.name == name:
            made = flat(_made(api, version, sample_request(api, version)))
            codes = [value for path, value in made.items() if path.endswith("].error_code")]
            assert codes and set(codes) == {ERROR} and made.get(".error_code", 0) == 0, (version, made)


def test_every_response_with_a_place_for_an_error_has_it() -> None:
    for api, version in CASES:
        made = flat(_made(api, version, sample_request(api, version)))
        codes = [value for path, value in made.items() if path.endswith("error_code")]
        # Before version 3 DescribeLogDirs only has errors of directories, which no request names.
        named = has_place_for_errors(api.response, version) and (api.name, version >= 3) != ("DescribeLogDirs", False)
        assert (int(ERROR) in codes) == named, (api, version)


def _made(api: Any, version: int, request: Any) -> Message:
    return error_response(api.response, version, request, ERROR, at_items=api.name in ITEM_ERRORS)
