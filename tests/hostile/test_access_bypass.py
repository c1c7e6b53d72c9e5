"""A user with access to his own topics, groups and transactional ids tries to use another user's: by forwarding, old
versions, topic id, transactional id and group. Each request is denied, and the other user's resources do not change.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import odradek
import pytest
from odradek.client.sasl import PasswordLogin
from odradek.metadata.acls import ResourceType
from odradek.protocol.apis import APIS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.envelope import EnvelopeRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.schema import Message
from odradek.server.access import audit
from odradek.server.controller.envelopes import encoded_principal

from compat_tests.access import log_in
from compat_tests.authorization.probes import (
    DESTRUCTIVE,
    ON_GROUPS,
    ON_TOPICS,
    ON_TRANSACTIONAL_IDS,
    Probe,
    Target,
)
from compat_tests.differential.runner import BY_NAME, build
from compat_tests.recipes import eventually
from compat_tests.wire import ConnectionClosed, WireClient, request_frame
from tests.hostile.harness.error_codes import DENIED, HIDDEN, REFUSED, USERS, codes_of

pytestmark = pytest.mark.usefixtures("sockets")

THEIRS, MINE = "orders", "mine"
_NOT_YET = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
_ALL, _ALLOW, _LITERAL = 2, 3, 3


class Ground:
    """Three brokers with ACLs, and a topic, a group and a transactional id of `admin` and of `mallory` each."""

    def __init__(self, cluster: odradek.Cluster, audited: Audited) -> None:
        self.cluster = cluster
        self.audited = audited
        self.addresses = cluster.bootstrap_servers.split(",")
        self.admin = self.client("admin", self.addresses[0])
        self._prepare()

    def client(self, user: str, address: str) -> WireClient:
        made = WireClient(address, client_id=user)
        log_in(made, PasswordLogin("PLAIN", user, USERS[user]))
        return made

    def _prepare(self) -> None:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=3) for name in (THEIRS, MINE)]
        made = self.admin.call(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
        assert {topic.error_code for topic in made.topics} == {0}
        self.ids = {topic.name: topic.topic_id for topic in made.topics}
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        rules = [AclCreation(kind, MINE, _LITERAL, "User:mallory", "*", _ALL, _ALLOW) for kind in kinds]
        response = self.admin.call(CreateAclsRequest(creations=rules), 3)
        assert {result.error_code for result in response.results} == {0}
        for kind in (0, 1):
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[THEIRS, MINE])
            eventually(
                lambda asked=asked: not codes_of(self.admin.call(asked, 4)) & _NOT_YET,
                what="there are coordinators",
            )
        servers = self.cluster.servers.values()
        eventually(lambda: all(len(one.node.metadata.image.acls) == 3 for one in servers), what="all have the rules")
        self.cluster.topic(THEIRS).send(b"secret")

    def target(self, kind: ResourceType) -> Target:
        """Returns mallory's resources, except one of this kind."""
        own = Target(MINE, self.ids[MINE], MINE, MINE)
        if kind is ResourceType.TOPIC:
            return replace(own, topic=THEIRS, topic_id=self.ids[THEIRS])
        return replace(own, group=THEIRS) if kind is ResourceType.GROUP else replace(own, transactional_id=THEIRS)

    def state(self) -> Any:
        """Returns the parts of the cluster that an attack would change."""
        server = next(iter(self.cluster.servers.values()))
        image = server.node.metadata.image
        topics = sorted(
            (topic.name, len(topic.partitions)) for topic in image.topics.by_id.values() if topic.name[0] != "_"
        )
        rules = sorted(map(str, image.acls))
        return topics, rules, sorted(image.scram), self.cluster.topic(THEIRS).values(), str(image.configs)


class Audited(logging.Handler):
    """The lines of the audit log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def denials(self, api: str) -> list[str]:
        about = "Principal = User:mallory is Denied", f" for request = {api} "
        return [line for line in self.lines if all(one in line for one in about)]


@pytest.fixture(scope="module")
def audited() -> Iterator[Audited]:
    """The audit log, which counts repetitions for an hour: the test sees the first line of each denial and no second one."""
    handler, logger, level = Audited(), audit.log, audit.log.level
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(audit, "PERIOD_S", 3600.0)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        yield handler
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.fixture(scope="module")
def ground(audited: Audited) -> Iterator[Ground]:
    security = odradek.Security("SASL_PLAINTEXT", "PLAIN", users=USERS, authorizer=True)
    with odradek.Cluster(brokers=3, security=security) as cluster:
        yield Ground(cluster, audited)


def versions_of(probe: Probe, request: Message, wanted: tuple[bytes, ...]) -> list[int]:
    """Returns the versions in which the probe's request names the wanted value; other versions do not have the field."""
    api = BY_NAME[probe.api]
    found = []
    for version in range(api.versions.low, api.versions.high + 1):
        with contextlib.suppress(AttributeError):  # the encoding of None: a name in a version that has an id
            frame = request_frame(request, version, 0, "")
            found += [version] if any(one in frame for one in wanted) else []
    return found


def check_denied(ground: Ground, probe: Probe, kind: ResourceType) -> None:
    request = build(BY_NAME[probe.api].request, probe.fields(ground.target(kind)))
    before = ground.state()
    versions = versions_of(probe, request, (THEIRS.encode(), ground.ids[THEIRS]))
    assert probe.version is None or probe.version in versions
    denied = 0
    for version in versions:
        for address in ground.addresses:
            with ground.client("mallory", address) as client:
                try:
                    codes = codes_of(client.call(request, version))
                except ConnectionClosed:  # the broker does not serve the version
                    continue
            assert codes & (DENIED | HIDDEN | REFUSED | _NOT_YET), (version, codes)
            denied += bool(codes & (DENIED | HIDDEN | REFUSED))
    assert denied
    assert ground.state() == before
    lines = [line for line in ground.audited.denials(probe.api) if f":{THEIRS} for request" in line]
    assert lines, "the denial is not in the audit log"
    assert max(Counter(lines).values()) <= len(ground.addresses), "a node repeats a line"


@pytest.mark.parametrize("probe", [*ON_TOPICS, *DESTRUCTIVE], ids=str)
def test_topic_of_another_is_denied_in_every_version_by_name_and_by_id(probe: Probe, ground: Ground) -> None:
    check_denied(ground, probe, ResourceType.TOPIC)


@pytest.mark.parametrize("probe", ON_GROUPS, ids=str)
def test_group_of_another_is_denied_in_every_version(probe: Probe, ground: Ground) -> None:
    check_denied(ground, probe, ResourceType.GROUP)


@pytest.mark.parametrize("probe", ON_TRANSACTIONAL_IDS, ids=str)
def test_transactional_id_of_another_is_denied_in_every_version(probe: Probe, ground: Ground) -> None:
    check_denied(ground, probe, ResourceType.TRANSACTIONAL_ID)


def test_own_transactional_id_is_served(ground: Ground) -> None:
    """Checks that the attacks above fail because of the other user's resource, not because of the rest of the request."""
    request = InitProducerIdRequest(transactional_id=MINE, transaction_timeout_ms=60_000)
    coordinator = FindCoordinatorRequest(key_type=1, coordinator_keys=[MINE])
    with ground.client("mallory", ground.addresses[0]) as client:
        found = client.call(coordinator, 4).coordinators[0]
    with ground.client("mallory", f"{found.host}:{found.port}") as client:
        response = eventually(
            lambda: (reported := client.call(request, 4)).error_code not in _NOT_YET and reported, what="it is answered"
        )
    assert response.error_code == 0


CHANGES: list[tuple[Message, int]] = [
    (CreateTopicsRequest(topics=[CreatableTopic("planted", 1, 1)], timeout_ms=10_000), 7),
    (CreateAclsRequest(creations=[AclCreation(5, "kafka-cluster", 3, "User:mallory", "*", 2, 3)]), 3),
    (
        AlterUserScramCredentialsRequest(
            deletions=[], upsertions=[ScramCredentialUpsertion("admin", 2, 4096, b"salt", b"p" * 64)]
        ),
        0,
    ),
]


@pytest.mark.parametrize(("request_", "version"), CHANGES, ids=lambda value: type(value).__name__)
def test_change_that_a_broker_forwards_is_denied_by_the_controller(
    request_: Message, version: int, ground: Ground
) -> None:
    before = ground.state()
    for address in ground.addresses:  # two of them forward it
        with ground.client("mallory", address) as client:
            codes = codes_of(client.call(request_, version))
        assert codes & DENIED, codes
        assert ground.state() == before


def test_envelope_of_a_client_is_not_opened(ground: Ground) -> None:
    """An envelope names the principal of its request, so only nodes may send one."""
    before = ground.state()
    request, version = CHANGES[0]
    forged = EnvelopeRequest(request_frame(request, version, 1, "x")[4:], encoded_principal("User:admin"), bytes(4))
    for address in ground.addresses:
        with ground.client("mallory", address) as client:
            try:
                assert client.call(forged, 0).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            except ConnectionClosed:
                continue  # listeners for clients do not have the API
    for server in ground.cluster.servers.values():
        for listener in server.network.listeners:
            if listener.name in ("CONTROLLER", "INTERNAL"):
                check_needs_a_certificate(listener.endpoint.address, forged)
    assert ground.state() == before


def check_needs_a_certificate(address: str, request: Message) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ConnectionError, ssl.SSLError)), WireClient(address, tls=context) as client:
        client.call(request, 0)


def test_denials_that_repeat_are_one_line_of_the_audit_log(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders-of-the-board")], allow_auto_topic_creation=False)
    with caplog.at_level(logging.INFO, "odradek.audit"), ground.client("mallory", ground.addresses[0]) as client:
        for _ in range(200):
            assert client.call(asked, 9).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    lines = [record.getMessage() for record in caplog.records if "orders-of-the-board" in record.getMessage()]
    assert len(lines) == 1
    assert "Principal = User:mallory is Denied" in lines[0]


def test_every_probe_names_an_api_that_exists() -> None:
    known = {api.name for api in APIS.values()}
    assert {probe.api for probe in (*ON_TOPICS, *ON_GROUPS, *ON_TRANSACTIONAL_IDS, *DESTRUCTIVE)} <= known
