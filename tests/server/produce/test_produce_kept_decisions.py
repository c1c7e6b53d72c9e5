"""Produce with decisions that a connection keeps: on the ACLs and on the quotas of its client."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import odradek
import pytest
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

from tests.server.harness.data_path import DataPath, batch_of, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

_CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
#: Requests of one connection: the broker decides anew for some of them, and uses the kept decision for the others.
_REQUESTS = 70


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker(config=_CONFIG) as running:
        yield running


@pytest.fixture
def path(broker: odradek.Broker) -> Iterator[DataPath]:
    found = DataPath(broker, client_id="kept")
    yield found
    found.close()


def produced(path: DataPath, topic: str, version: int = 12) -> int:
    return path.produce(topic, batch_of(b"x"), version=version).error_code


def rule(topic: str, permission: Permission) -> CreateAclsRequest:
    return CreateAclsRequest(
        [
            AclCreation(
                ResourceType.TOPIC, topic, PatternType.LITERAL, "User:ANONYMOUS", "*", Operation.WRITE, permission
            )
        ]
    )


@pytest.mark.parametrize("version", [12, 13])
def test_kept_decision_ends_with_a_change_of_the_rules(path: DataPath, version: int) -> None:
    topic = path.topic()
    assert {produced(path, topic, version) for _ in range(_REQUESTS)} == {0}
    assert path.client.call(rule(topic, Permission.DENY), 3).results[0].error_code == 0
    wait_until(lambda: produced(path, topic, version) == ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the rule does not hold")
    assert {produced(path, topic, version) for _ in range(_REQUESTS)} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    matching = DeleteAclsFilter(
        ResourceType.TOPIC, topic, PatternType.LITERAL, None, None, Operation.ANY, Permission.ANY
    )
    assert path.client.call(DeleteAclsRequest([matching]), 3).filter_results[0].error_code == 0
    wait_until(lambda: produced(path, topic, version) == 0, "the rule holds after it was deleted")
    assert {produced(path, topic, version) for _ in range(_REQUESTS)} == {0}


def test_kept_decisions_are_counted_and_written_to_the_audit_log(
    path: DataPath, caplog: pytest.LogCaptureFixture
) -> None:
    topic, authorizer = path.topic(), path.broker.server.access.authorizer
    assert authorizer is not None
    assert produced(path, topic) == 0
    before = authorizer.allowed
    assert {produced(path, topic) for _ in range(_REQUESTS)} == {0}
    assert authorizer.allowed == before + _REQUESTS
    caplog.set_level(logging.DEBUG, "odradek.audit")
    assert {produced(path, topic) for _ in range(_REQUESTS)} == {0}
    assert any(
        "is Allowed operation = WRITE" in one.getMessage() and topic in one.getMessage() for one in caplog.records
    )
