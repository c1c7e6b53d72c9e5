"""Access rules and delegation tokens at the controller: who may change them, their times, and the records."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.protocol.messages.token_principals import TokenPrincipal
from odradek.replication.controller import acls, delegation_tokens
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.delegation_tokens import RemoveExpiredTokensRequest
from odradek.replication.controller.state import Caller

from tests.replication.controller_transcript import CLUSTER_ID, NODE_ID, Transcript

NOW_MS = 1_000_000
LIFETIME_MS, EXPIRY_MS = 5000, 1000


class Deciding:
    def __init__(self, *, uses_acls: bool = False, **config: str) -> None:
        self.transcript = Transcript()
        words = " ".join(f"{key.replace('_', '.')}={value}" for key, value in config.items())
        self.transcript.run(f"> config node.id=1 {words}\n")
        self.transcript.controller = Controller(
            NODE_ID, CLUSTER_ID, self.transcript.static, random.Random(1), uses_acls=uses_acls
        )
        self.transcript.run("> broker 0\n")
        self.now_ms = NOW_MS

    def ask(self, request: Any, version: int = 3, principal: str = "User:alice") -> Any:
        controller = self.transcript.controller
        result = controller.handle(request, version, None, Caller(principal, self.now_ms))
        if result.records:
            controller.replay(result.records, 1, 0)
        self.records = result.records
        return result.response

    @property
    def rules(self) -> list[str]:
        """Returns the resources of the rules."""
        return [acl.resource_name for acl in self.transcript.controller.image.acls.values()]

    @property
    def tokens(self) -> dict[str, Any]:
        return dict(self.transcript.controller.image.delegation_tokens)


# ---- access rules


def rule(name: str = "orders", **changes: Any) -> AclCreation:
    fields = {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**(fields | changes))


def found_by(name: str | None = None, **changes: Any) -> DeleteAclsFilter:
    fields = {
        "resource_type_filter": 1,
        "resource_name_filter": name,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return DeleteAclsFilter(**(fields | changes))


@pytest.fixture
def rules() -> Deciding:
    return Deciding(uses_acls=True)


def test_rules_need_an_authorizer_that_uses_them() -> None:
    deciding = Deciding()
    for request in (CreateAclsRequest([rule()]), DeleteAclsRequest([found_by()])):
        response = deciding.ask(request)
        results = getattr(response, "results", None) or response.filter_results
        assert [(one.error_code, one.error_message) for one in results] == [
            (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
        ]


def test_each_rule_is_created_once_and_faults_are_its_own(rules: Deciding) -> None:
    creations = [
        rule(),
        rule(),
        rule(""),
        rule(operation=1),
        rule("x", resource_type=4),
        rule("kafka-cluster", resource_type=4),
    ]
    response = rules.ask(CreateAclsRequest(creations))
    invalid = ErrorCode.INVALID_REQUEST
    assert [(one.error_code, one.error_message) for one in response.results] == [
        (0, None),
        (0, None),
        (invalid, "Invalid empty resource name"),
        (invalid, "Invalid operation ANY"),
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (0, None),
    ]
    assert [(one.resource_name, one.principal, one.host) for one in rules.records] == [  # type: ignore[attr-defined]
        ("orders", "User:alice", "*"),
        ("kafka-cluster", "User:alice", "*"),
    ]
    assert rules.ask(CreateAclsRequest([rule()])).results[0].error_code == 0 and not rules.records


def test_rule_that_several_filters_find_is_removed_once(rules: Deciding) -> None:
    rules.ask(CreateAclsRequest([rule("a"), rule("b"), rule("c", principal="User:bob")]))
    filters = [found_by("a"), found_by(principal_filter="User:alice"), found_by(operation=0), found_by("none")]
    response = rules.ask(DeleteAclsRequest(filters))
    assert [(one.error_code, [acl.resource_name for acl in one.matching_acls]) for one in response.filter_results] == [
        (0, ["a"]),
        (0, ["a", "b"]),
        (ErrorCode.INVALID_REQUEST, []),
        (0, []),
    ]
    assert response.filter_results[2].error_message == "Unknown entryFilter."
    assert len(rules.records) == 2
    assert rules.rules == ["c"]


@pytest.mark.parametrize(("limit", "is_done"), [(2, True), (1, False)])
def test_deletion_of_rules_has_a_limit(
    rules: Deciding, limit: int, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acls, "MAX_RECORDS_PER_REQUEST", limit)
    rules.ask(CreateAclsRequest([rule("a"), rule("b")]))
    response = rules.ask(DeleteAclsRequest([found_by()]))
    assert response.filter_results[0].error_code == (0 if is_done else ErrorCode.INVALID_REQUEST)
    assert len(rules.rules) == (0 if is_done else 2)


# ---- delegation tokens


@pytest.fixture
def tokens() -> Deciding:
    return Deciding(
        delegation_token_secret_key="secret",
        delegation_token_max_lifetime_ms=str(LIFETIME_MS),
        delegation_token_expiry_time_ms=str(EXPIRY_MS),
    )


def create(tokens: Deciding, **fields: Any) -> Any:
    return tokens.ask(CreateDelegationTokenRequest(**({"max_lifetime_ms": -1} | fields)))


@pytest.mark.parametrize(
    ("asked_ms", "lifetime_ms", "expiry_ms"),
    [(-1, 5000, 1000), (0, 5000, 1000), (1, 1, 1), (999, 999, 999), (1001, 1001, 1000), (9999, 5000, 1000)],
)
def test_lifetime_of_a_token_is_the_shorter_one(
    tokens: Deciding, asked_ms: int, lifetime_ms: int, expiry_ms: int
) -> None:
    response = create(tokens, max_lifetime_ms=asked_ms)
    assert (response.issue_timestamp_ms, response.max_timestamp_ms) == (NOW_MS, NOW_MS + lifetime_ms)
    assert response.expiry_timestamp_ms == NOW_MS + expiry_ms
    (made,) = tokens.tokens.values()
    assert (made.owner, made.requester, made.renewers) == ("User:alice", "User:alice", ())
    assert (made.issue_timestamp, made.max_timestamp) == (NOW_MS, NOW_MS + lifetime_ms)
    assert made.expiration_timestamp == NOW_MS + expiry_ms


def test_token_may_be_for_another_owner(tokens: Deciding) -> None:
    renewers = [TokenPrincipal("User", "carol")]
    response = create(tokens, owner_principal_type="User", owner_principal_name="bob", renewers=renewers)
    assert (response.principal_type, response.principal_name) == ("User", "bob")
    assert (response.token_requester_principal_type, response.token_requester_principal_name) == ("User", "alice")
    (made,) = tokens.tokens.values()
    assert (made.owner, made.requester, made.renewers) == ("User:bob", "User:alice", ("User:carol",))
    group = [TokenPrincipal("Group", "admins")]
    assert create(tokens, renewers=group).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert len(tokens.tokens) == 1


def test_tokens_need_a_secret() -> None:
    deciding = Deciding()
    assert create(deciding, renewers=[TokenPrincipal("Group", "x")]).error_code == (
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    )
    for request in (RenewDelegationTokenRequest(b"x", 1), ExpireDelegationTokenRequest(b"x", 1)):
        assert deciding.ask(request).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize(
    ("period_ms", "waited_ms", "expiry_ms"),
    [(-1, 0, 1000), (0, 10, 1010), (7, 10, 17), (5000, 10, 1010), (999, 999, 1998), (-1, 1000, 2000)],
)
def test_renewal_is_within_the_period_and_the_lifetime(
    tokens: Deciding, period_ms: int, waited_ms: int, expiry_ms: int
) -> None:
    hmac = create(tokens).hmac
    tokens.now_ms += waited_ms
    response = tokens.ask(RenewDelegationTokenRequest(hmac, period_ms))
    assert (response.error_code, response.expiry_timestamp_ms) == (0, NOW_MS + expiry_ms)
    (made,) = tokens.tokens.values()
    assert made.expiration_timestamp == NOW_MS + expiry_ms and made.max_timestamp == NOW_MS + LIFETIME_MS


def test_renewal_does_not_pass_the_lifetime(tokens: Deciding) -> None:
    hmac = create(tokens, max_lifetime_ms=1500).hmac
    tokens.now_ms += 900
    assert tokens.ask(RenewDelegationTokenRequest(hmac, -1)).expiry_timestamp_ms == NOW_MS + 1500
    assert tokens.ask(ExpireDelegationTokenRequest(hmac, 9999)).expiry_timestamp_ms == NOW_MS + 1500


def test_expired_token_is_not_renewed_and_may_be_removed(tokens: Deciding) -> None:
    hmac = create(tokens).hmac
    tokens.now_ms += EXPIRY_MS + 1
    assert tokens.ask(RenewDelegationTokenRequest(hmac, -1)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert tokens.ask(ExpireDelegationTokenRequest(hmac, 0)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    response = tokens.ask(ExpireDelegationTokenRequest(hmac, -1))
    assert (response.error_code, response.expiry_timestamp_ms) == (0, tokens.now_ms) and not tokens.tokens


@pytest.mark.parametrize(("period_ms", "is_left"), [(-1, False), (0, True), (7, True)])
def test_expiry_is_set_or_the_token_removed(tokens: Deciding, period_ms: int, is_left: bool) -> None:
    hmac = create(tokens).hmac
    response = tokens.ask(ExpireDelegationTokenRequest(hmac, period_ms))
    assert response.expiry_timestamp_ms == NOW_MS + max(period_ms, 0)
    assert [one.expiration_timestamp for one in tokens.tokens.values()] == ([NOW_MS + period_ms] if is_left else [])


@pytest.mark.parametrize(
    ("principal", "error"),
    [
        ("User:alice", ErrorCode.NONE),
        ("User:carol", ErrorCode.NONE),
        ("User:dave", ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
    ],
)
def test_token_is_changed_by_its_owner_and_renewers(tokens: Deciding, principal: str, error: ErrorCode) -> None:
    hmac = create(tokens, renewers=[TokenPrincipal("User", "carol")]).hmac
    assert tokens.ask(RenewDelegationTokenRequest(hmac, 9), principal=principal).error_code == error
    assert tokens.ask(ExpireDelegationTokenRequest(hmac, 9), principal=principal).error_code == error
    assert tokens.ask(RenewDelegationTokenRequest(b"other", 9)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert tokens.ask(ExpireDelegationTokenRequest(b"other", 9)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_expired_tokens_are_removed_some_at_a_time(tokens: Deciding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_REMOVED", 2)
    for _ in range(3):
        create(tokens)
    tokens.now_ms += EXPIRY_MS
    tokens.ask(RemoveExpiredTokensRequest(), 0)
    assert len(tokens.tokens) == 3
    tokens.now_ms += 1
    for left in (1, 0, 0):
        tokens.ask(RemoveExpiredTokensRequest(), 0)
        assert len(tokens.tokens) == left
