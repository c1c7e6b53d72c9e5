"""Access rules: which are valid, which rules a filter finds, and tokens by their HMACs."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.metadata import delegation_tokens
from odradek.metadata.acls import (
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    fault_of_rule,
    known,
    names_unknown,
)
from odradek.metadata.client_quotas import entity_error, value_error
from odradek.metadata.credentials import salt_text
from odradek.metadata.delegation_tokens import TokenIds, TokenSizes, is_expired, may_renew, token_bytes, token_hmac
from odradek.metadata.image import AclImage, DelegationTokenImage
from odradek.metadata.quota_filters import ANY, DEFAULT, EXACT, Component, InvalidFilter, QuotaFilter

RULE = AclImage(2, "orders", 3, "User:alice", "*", 3, 3)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 7}, None),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 4}, None),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 2}, None),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"permission_type": 2}, None),
        ({"permission_type": 4}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Resource name should not be empty"),
        (
            {"principal": "alice"},
            "Could not parse principal from `alice` (no colon is present separating the principal type from the principal "
            "name)",
        ),
    ],
)
def test_rule_names_what_it_allows_or_denies(changes: dict[str, Any], fault: str | None) -> None:
    assert fault_of_rule(RULE._replace(**changes)) == fault


def test_undefined_codes_are_unknown() -> None:
    assert known(Operation, 15) is Operation.TWO_PHASE_COMMIT and known(Operation, 16) is Operation.UNKNOWN
    assert names_unknown(2, 0, 3) and not names_unknown(2, 1, 99)


ALL = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)
#: A literal rule, one of a prefix, a wildcard, and rules that differ from the first in one field each.
RULES = {
    "first": RULE,
    "prefix": RULE._replace(resource_name="ord", pattern_type=4),
    "wildcard": RULE._replace(resource_name="*"),
    "group": RULE._replace(resource_type=3),
    "bob": RULE._replace(principal="User:bob"),
    "host": RULE._replace(host="10.0.0.1"),
    "write": RULE._replace(operation=4),
    "deny": RULE._replace(permission_type=2),
    "other": RULE._replace(resource_name="other"),
}
EVERY = set(RULES)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, EVERY),
        ({"pattern_type": PatternType.MATCH}, EVERY),
        ({"resource_type": 3}, {"group"}),
        ({"principal": "User:bob"}, {"bob"}),
        ({"host": "10.0.0.1"}, {"host"}),
        ({"operation": 4}, {"write"}),
        ({"permission_type": 2}, {"deny"}),
        ({"pattern_type": PatternType.PREFIXED}, {"prefix"}),
        ({"pattern_type": PatternType.LITERAL}, EVERY - {"prefix"}),
        ({"resource_name": "orders"}, EVERY - {"prefix", "wildcard", "other"}),
        ({"resource_name": "ord"}, {"prefix"}),
        ({"resource_name": "orders", "pattern_type": PatternType.LITERAL}, EVERY - {"prefix", "wildcard", "other"}),
        ({"resource_name": "ord", "pattern_type": PatternType.LITERAL}, set()),
        ({"resource_name": "ord", "pattern_type": PatternType.PREFIXED}, {"prefix"}),
        ({"resource_name": "orders", "pattern_type": PatternType.PREFIXED}, set()),
        ({"resource_name": "orders", "pattern_type": PatternType.MATCH}, EVERY - {"other"}),
        ({"resource_name": "or", "pattern_type": PatternType.MATCH}, {"wildcard"}),
        ({"resource_name": "ord", "pattern_type": PatternType.MATCH}, {"prefix", "wildcard"}),
        ({"resource_name": "*"}, {"wildcard"}),
        ({"resource_type": 3, "operation": 4}, set()),
    ],
)
def test_filter_finds_the_rules_that_match_in_each_field(changes: dict[str, Any], expected: set[str]) -> None:
    wanted = ALL._replace(**changes)
    found = wanted.find(RULES.values())
    assert found == [rule for name, rule in RULES.items() if name in expected]
    assert {name for name, rule in RULES.items() if wanted.matches(rule)} == expected


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"resource_type": 0}, "Unknown patternFilter."),
        ({"pattern_type": 0}, "Unknown patternFilter."),
        ({"pattern_type": 5}, "Unknown patternFilter."),
        ({"operation": 0}, "Unknown entryFilter."),
        ({"permission_type": 0}, "Unknown entryFilter."),
        ({"permission_type": 4}, "Unknown entryFilter."),
    ],
)
def test_filter_with_an_unknown_code_finds_nothing(changes: dict[str, int], fault: str | None) -> None:
    assert ALL._replace(**changes).fault == fault


# ---- delegation tokens


def token(owner: str = "User:alice", *renewers: str, expires: int = 50, most: int = 90) -> DelegationTokenImage:
    return DelegationTokenImage(owner, "User:alice", renewers, 0, most, expires)


def test_token_is_renewed_by_its_owner_and_its_renewers() -> None:
    made = token("User:alice", "User:bob")
    assert [may_renew(made, name) for name in ("User:alice", "User:bob", "User:carol")] == [True, True, False]


@pytest.mark.parametrize(("now_ms", "is_over"), [(49, False), (50, False), (51, True)])
def test_token_is_expired_after_the_earlier_of_its_times(now_ms: int, is_over: bool) -> None:
    assert is_expired(token(expires=50, most=90), now_ms) == is_expired(token(expires=90, most=50), now_ms) == is_over


def test_token_is_found_by_its_hmac_as_long_as_it_is_there() -> None:
    ids, first, second = TokenIds("secret"), {"a": token()}, {"a": token(), "b": token()}
    of_a, of_b = token_hmac("secret", "a"), token_hmac("secret", "b")
    assert ids.hmac_of("a") == of_a and of_a != token_hmac("other", "a")
    assert (ids.find(first, of_a), ids.find(first, of_b), ids.find(second, of_b)) == ("a", None, "b")
    assert ids.find({"b": token()}, of_a) is None and ids.find(second, of_a) == "a"


def test_sizes_of_tokens_are_those_of_their_owners() -> None:
    made = token("User:alice", "User:bob")
    size = token_bytes(("User:alice", "User:alice", "User:bob"))
    assert token_bytes(("ä",)) == token_bytes(("ab",)) == delegation_tokens._TOKEN_BYTES + 2
    sizes = TokenSizes([made, made, token("User:carol")])
    assert (sizes.of("User:alice"), sizes.of("User:nobody")) == (2 * size, 0)
    sizes.remove(made)
    assert sizes.of("User:alice") == size
    sizes.remove(made)
    assert sizes.of("User:alice") == 0 and sizes.of("User:carol") > 0


@pytest.mark.parametrize(("number", "text"), [(0, b"0"), (1, b"1"), (35, b"z"), (36, b"10"), (36 * 36 - 1, b"zz")])
def test_salts_are_numbers_in_base_36(number: int, text: bytes) -> None:
    assert salt_text(number) == text


# ---- client quotas


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"user": "a"}, None),
        ({"user": None, "client-id": "c"}, None),
        ({"user": ""}, "Empty user not supported"),
        ({"group": "g"}, "Unhandled client quota entity type: group"),
        ({"ip": "10.0.0.1"}, None),
        ({"ip": None}, None),
        ({"ip": "not a host"}, "not a host is not a valid IP or resolvable host."),
        (
            {"ip": "10.0.0.1", "user": "a"},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
    ],
)
def test_quota_entity_is_a_user_a_client_or_an_address(entity: dict[str, str | None], words: str | None) -> None:
    assert entity_error(entity) == words


@pytest.mark.parametrize(
    ("entity", "key", "value", "words"),
    [
        ({"user": "a"}, "producer_byte_rate", 1.0, None),
        ({"user": "a"}, "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ({"user": "a"}, "producer_byte_rate", float("nan"), "Quota producer_byte_rate must be greater than 0"),
        ({"user": "a"}, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ({"user": "a"}, "producer_byte_rate", 1 + 1e-7, None),
        ({"user": "a"}, "producer_byte_rate", 1e19, "Proposed value for producer_byte_rate is too large for a LONG."),
        ({"user": "a"}, "request_percentage", 0.5, None),
        ({"user": "a"}, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ({"ip": None}, "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        ({"ip": None}, "connection_creation_rate", 2.0**31 - 1, None),
        (
            {"ip": None},
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_value_of_a_quota_is_within_its_type(
    entity: dict[str, str | None], key: str, value: float, words: str | None
) -> None:
    assert value_error(entity, key, value) == words


ENTITIES: list[tuple[tuple[str, str | None], ...]] = [
    (("user", "a"),),
    (("user", None),),
    (("user", "a"), ("client-id", "c")),
    (("client-id", "c"),),
    (("ip", "1"),),
]


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [0, 1, 2, 3, 4]),
        ([], True, []),
        ([Component("user", EXACT, "a")], False, [0, 2]),
        ([Component("user", EXACT, "a")], True, [0]),
        ([Component("user", DEFAULT, None)], False, [1]),
        ([Component("user", ANY, None)], False, [0, 1, 2]),
        ([Component("user", ANY, None)], True, [0, 1]),
        ([Component("user", ANY, None), Component("client-id", EXACT, "c")], True, [2]),
        ([Component("ip", ANY, None)], False, [4]),
    ],
)
def test_filter_of_quotas_matches_each_of_its_components(
    components: list[Component], strict: bool, expected: list[int]
) -> None:
    wanted = QuotaFilter(components, strict=strict)
    assert [number for number, entity in enumerate(ENTITIES) if wanted.matches(entity)] == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("components", "words", "is_unsupported"),
    [
        ([Component("", ANY, None)], "Invalid empty entity type.", False),
        ([Component("user", ANY, None)] * 2, "Entity type user cannot appear more than once in the filter.", False),
        ([Component("group", ANY, None)], "Unsupported entity type group", True),
        ([Component("user", EXACT, None)], "MATCH_TYPE_EXACT, but set match string to null", False),
        ([Component("user", DEFAULT, "a")], "MATCH_TYPE_DEFAULT, but also specified a match string", False),
        ([Component("user", ANY, "a")], "MATCH_TYPE_SPECIFIED, but also specified a match string", False),
        ([Component("user", 3, None)], "Unknown match type 3", False),
        ([Component("user", ANY, None), Component("ip", ANY, None)], "IP filter component should not be used", False),
    ],
)
def test_filter_of_quotas_that_cannot_be_is_refused(
    components: list[Component], words: str, is_unsupported: bool
) -> None:
    with pytest.raises(InvalidFilter, match=words) as raised:
        QuotaFilter(components, strict=False)
    assert raised.value.is_unsupported == is_unsupported
