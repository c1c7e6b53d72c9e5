"""A cluster with an authorizer and logins between its nodes: its start without metadata, and forwarded requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.protocol.apis import APIS
from odradek.protocol.codec import decode, encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, ResponseHeader
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.schema import Message
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.envelopes import decoded_principal, encoded_principal

from compat_tests.broker_process import free_port
from compat_tests.wire import WireClient
from tests.security.exchanges import ScramClient, plain
from tests.server.harness.cluster_process import COMBINED, Cluster, ClusterNode

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = {"node": "n-secret", "admin": "a-secret", "client": "c-secret"}
JAAS = f'{MODULE} username="node" password="n-secret" ' + " ".join(f'user_{n}="{p}"' for n, p in USERS.items()) + ";"
ANY_RULE = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.brokers.plain.sasl.jaas.config": JAAS,
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin",
    "early.start.listeners": "BROKERS",
    "delegation.token.secret.key": "token-secret",
    "connection.failed.authentication.delay.ms": "0",
}


class SecuredCluster(Cluster):
    def add(self, node_id: int, role: str = COMBINED) -> ClusterNode:
        node = super().add(node_id, role)
        node.properties |= SECURED
        node.properties["listeners"] += f",BROKERS://127.0.0.1:{free_port()}"
        return node


def port_of(node: ClusterNode, listener: str) -> int:
    (found,) = (one for one in node.properties["listeners"].split(",") if one.startswith(f"{listener}://"))
    return int(found.rpartition(":")[2])


def logged_in(node: ClusterNode, listener: str, user: str) -> WireClient:
    client = WireClient(f"127.0.0.1:{port_of(node, listener)}")
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert client.call(SaslAuthenticateRequest(auth_bytes=plain(user, USERS[user])), 2).error_code == 0
    return client


@pytest.fixture(scope="module")
def cluster(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster of which only the first node runs, so that there is no leader and no metadata."""
    found = SecuredCluster(tmp_path_factory.mktemp("secured-start"), [COMBINED] * 3)
    try:
        found.nodes[1].begin()
        yield found
    finally:
        found.__exit__(None, None, None)


def test_early_listeners_serve_super_users_before_there_is_metadata(cluster: SecuredCluster) -> None:
    node = cluster.nodes[1]
    admin = cluster.until(lambda: logged_in(node, "BROKERS", "admin"), "the early listener accepts")
    with admin:
        assert admin.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3).error_code == 0
        assert admin.call(MetadataRequest(topics=[]), 12).brokers == []
    with logged_in(node, "BROKERS", "client") as client:  # there are no rules yet to decide by
        described = client.call(ANY_RULE, 3)
        assert described.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(ConnectionRefusedError):
        WireClient(f"127.0.0.1:{port_of(node, 'PLAINTEXT')}")


def test_the_cluster_starts_when_the_others_come(cluster: SecuredCluster) -> None:
    for node_id in (2, 3):
        cluster.nodes[node_id].begin()
    for node in cluster.nodes.values():
        node.await_serving()
    assert {result.error_code for result in created(cluster, "first")} == {0}
    for node in cluster.nodes.values():
        node.kill()
    cluster.start_all()
    assert {result.error_code for result in created(cluster, "second")} == {0}


def created(cluster: SecuredCluster, name: str) -> list[Any]:
    request = CreateTopicsRequest(topics=[CreatableTopic(name, 1, 3)], timeout_ms=30_000)

    def ask() -> list[Any] | None:
        with logged_in(cluster.nodes[1], "BROKERS", "admin") as admin:
            topics: list[Any] = admin.call(request, 7).topics
        return None if topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR else topics

    found: list[Any] = cluster.until(ask, f"{name} is created")
    return found


def enveloped(request: Message, version: int, principal: bytes) -> EnvelopeRequest:
    api = APIS[request.SCHEMA.key or 0]
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=7, client_id="forwarded"
    )
    data = encode(header, api.request_header_version(version)) + encode(request, version)
    return EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=b"\x7f\0\0\1")


def answered(cluster: SecuredCluster, sender: str, request: Message, version: int, principal: bytes) -> Any:
    """Sends an Envelope to the active controller. Returns the error of the Envelope, or the response in it."""

    def ask() -> Any:
        for node in cluster.nodes.values():
            with logged_in(node, "CONTROLLER", sender) as client:
                response = client.call(enveloped(request, version, principal), 0)
            if response.error_code != ErrorCode.NOT_CONTROLLER:
                return response
        return None

    response = cluster.until(ask, "a controller is active")
    if response.error_code:
        return ErrorCode(response.error_code)
    api = APIS[request.SCHEMA.key or 0]
    data = response.response_data
    _, pos = decode(ResponseHeader, api.response_header_version(version), data)
    return decode(api.response, version, data, pos)[0]


TOPIC = CreateTopicsRequest(topics=[CreatableTopic("forwarded", 1, 1)], timeout_ms=30_000)


def test_an_envelope_is_taken_from_nodes_only(cluster: SecuredCluster) -> None:
    forged = encoded_principal("User:admin")
    assert answered(cluster, "client", TOPIC, 7, forged) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    of_client = answered(cluster, "node", TOPIC, 7, encoded_principal("User:client"))
    assert of_client.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert answered(cluster, "node", TOPIC, 7, forged).topics[0].error_code == 0


def test_a_client_with_a_token_makes_no_tokens(cluster: SecuredCluster) -> None:
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    with logged_in(cluster.nodes[1], "BROKERS", "admin") as admin:
        token = admin.call(request, 3)
    assert token.error_code == 0

    def with_token() -> WireClient | None:
        client = WireClient(f"127.0.0.1:{port_of(cluster.nodes[2], 'BROKERS')}")
        client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        hmac = encoded_hmac(token.hmac)
        scram = ScramClient("sha256", token.token_id, hmac, extensions=",tokenauth=true")
        first = client.call(SaslAuthenticateRequest(auth_bytes=scram.first), 2)
        final = client.call(SaslAuthenticateRequest(auth_bytes=scram.final(first.auth_bytes)), 2)
        if final.error_code:  # this node does not have the token yet: SCRAM rejects unknown ones in the last step
            client.close()
            return None
        return client

    with cluster.until(with_token, "the token is there") as client:
        assert client.call(request, 3).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    of_token = answered(cluster, "node", request, 3, encoded_principal("User:admin", is_token=True))
    assert of_token.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    of_user = answered(cluster, "node", request, 3, encoded_principal("User:admin"))
    assert of_user.error_code == 0


def encoded_hmac(hmac: bytes) -> str:
    import base64

    return base64.b64encode(hmac).decode()


def test_a_principal_in_an_envelope_says_whether_it_came_with_a_token() -> None:
    # As Kafka's DefaultKafkaPrincipalBuilder serializes it: version, type, name, flag, no tagged fields.
    assert encoded_principal("User:a", is_token=True) == b"\0\0\x05User\x02a\x01\0"
    assert decoded_principal(b"\0\0\x05User\x02a\x01\0") == ("User:a", True)
    assert decoded_principal(encoded_principal("User:a")) == ("User:a", False)


def test_an_early_listener_that_is_none_is_refused() -> None:
    properties = {"listeners": "PLAINTEXT://:0", "early.start.listeners": "OTHER"}
    with pytest.raises(
        InvalidConfig, match=r"early\.start\.listeners contains listener OTHER, but this is not contained"
    ):
        _ = BrokerConfig(properties).listeners
