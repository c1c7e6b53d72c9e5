"""Stock clients log in with Kerberos (GSSAPI), with the tickets of a real key distribution center."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gssapi
import pytest
from odradek.client.properties_file import parse_properties
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

from compat_tests.broker_process import free_port
from compat_tests.java.tool import ToolResult, run_tool
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.security.round_trips import DEADLINE_S, through_kafka_python
from compat_tests.wire import WireClient
from tests.docs.pages import DOCS, blocks
from tests.security.kdc import REALM, Kdc

KERBEROS = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"}
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


GUIDE = blocks(DOCS / "specialists" / "security-kerberos.md")
#: Blocks of the guide: the properties of the broker, those of a Java client, and a program.
BROKER_BLOCK, JAVA_BLOCK, PROGRAM = (block.text for block in GUIDE if block.language in ("properties", "python"))
#: The queries of `kadmin` in the guide: they make the broker's principal and its keytab, a new key, and remove the old one.
QUERIES = [query for block in GUIDE for query in re.findall(r'^kadmin -q "(.*)"$', block.text, re.MULTILINE)]


def of_the_guide(keytab: Path) -> dict[str, str]:
    """Returns the broker's properties of the guide, with an existing port, keytab and realm."""
    text = BROKER_BLOCK.replace("broker.acme.com:9092", f"localhost:{free_port()}")
    return parse_properties(placed(text, keytab))


def placed(text: str, keytab: Path) -> str:
    """Returns a text of the guide with the test's host, keytab and realm."""
    text = text.replace("broker.acme.com", "localhost").replace("/etc/odradek/kafka.keytab", str(keytab))
    return text.replace("ACME.COM", REALM)


class KerberosBroker(OdradekProcess):
    """A broker for clients of the realm: Alice may do everything, others nothing."""

    def __init__(self, kdc: Kdc, directory: Path) -> None:
        self.keytab = kdc.directory / "of-the-guide.keytab"
        for query in QUERIES[:2]:
            kdc.administer(placed(query, self.keytab))
        super().__init__(
            directory,
            {
                **SINGLE_NODE,
                **of_the_guide(self.keytab),
                "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1](.*)s/-admin$//,DEFAULT",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:alice",
            },
        )
        self.kdc = kdc

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.kdc.environment}


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kdc")) as center:
        yield center


@pytest.fixture(scope="module")
def kerberos(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosBroker]:
    with KerberosBroker(kdc, tmp_path_factory.mktemp("kerberos")) as broker:
        assert isinstance(broker, KerberosBroker)
        yield broker


LogIn = Callable[[str], None]


@pytest.fixture
def log_in(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> LogIn:
    """Gives this process the ticket of a principal, as `kinit` does."""

    def get(principal: str) -> None:
        for name in ("KRB5_CONFIG", "KRB5RCACHEDIR"):
            monkeypatch.setenv(name, kdc.environment[name])
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.tickets(principal, kdc.keytab(principal))}")

    return get


def topics_of_java(broker: KerberosBroker, principal: str, directory: Path) -> ToolResult:
    """Creates a topic with the client's properties of the guide, for this principal."""
    config = directory / "client.properties"
    text = JAVA_BLOCK.replace("/etc/shop/alice.keytab", str(broker.kdc.keytab(principal)))
    config.write_text(text.replace("alice@ACME.COM", f"{principal}@{REALM}"))
    return run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", broker.bootstrap, "--create", "--topic", f"of-{principal}"),
        *("--command-config", str(config)),
        jvm=(f"-Djava.security.krb5.conf={broker.kdc.config}",),
    )


@pytest.mark.oracle
def test_java_is_authorized_by_the_name_that_the_rules_make(
    kerberos: KerberosBroker, java_tools: None, tmp_path: Path
) -> None:
    assert "Created topic of-alice-admin" in topics_of_java(kerberos, "alice-admin", tmp_path).checked().out
    assert "Authorization failed" in topics_of_java(kerberos, "bob", tmp_path).err


def test_kafka_python(kerberos: KerberosBroker, log_in: LogIn, topic: str) -> None:
    log_in("alice")
    login = {"bootstrap_servers": kerberos.bootstrap, **KERBEROS}
    through_kafka_python(topic, **login)


def test_program_of_the_guide_works_while_the_keytab_is_rotated(
    kdc: Kdc, kerberos: KerberosBroker, log_in: LogIn
) -> None:
    add, remove = (placed(query, kerberos.keytab) for query in QUERIES[2:])
    command = [sys.executable, "-c", PROGRAM.replace("broker.acme.com:9092", kerberos.bootstrap)]
    log_in("alice")
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    (number,) = kdc.key_numbers(kerberos.keytab)
    kdc.administer(add)
    assert kdc.key_numbers(kerberos.keytab) == [number, number + 1]
    subprocess.run(command, check=True, timeout=DEADLINE_S)  # with the service ticket of the old key
    kdc.administer(remove)
    assert kdc.key_numbers(kerberos.keytab) == [number + 1]
    log_in("alice")
    subprocess.run(command, check=True, timeout=DEADLINE_S)


def exchange(broker: OdradekProcess, *tokens: Callable[[bytes], bytes]) -> tuple[int, str | None]:
    """Sends the token that each of `tokens` makes of the previous response; returns the last error."""
    with WireClient(broker.bootstrap, timeout=DEADLINE_S) as client:
        assert client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        challenge = b""
        for token in tokens:
            response = client.call(SaslAuthenticateRequest(auth_bytes=token(challenge)), 2)
            challenge = bytes(response.auth_bytes)
            if response.error_code:
                break
    return response.error_code, response.error_message


def initiator(service: str) -> gssapi.SecurityContext:
    name = gssapi.Name(f"{service}@localhost", gssapi.NameType.hostbased_service)
    return gssapi.SecurityContext(name=name, usage="initiate", flags=gssapi.RequirementFlag.integrity)


def choosing(context: gssapi.SecurityContext, choice: bytes) -> Callable[[bytes], bytes]:
    def respond(offer: bytes) -> bytes:
        assert context.unwrap(offer).message == b"\x01\0\0\0"
        return context.wrap(choice, False).message

    return respond


def test_tokens_that_do_not_prove_a_principal_are_refused_and_logged(
    kdc: Kdc, kerberos: KerberosBroker, log_in: LogIn
) -> None:
    log_in("alice")
    kdc.keytab("other/localhost")
    context, other = initiator("kafka"), initiator("other")
    token = context.step()
    assert exchange(kerberos, lambda _: token, choosing(context, b"\x01\0\0\0")) == (0, "")
    refused = {
        "layer that the broker does not offer": (
            lambda _: token_of_layer,
            choosing(layer := initiator("kafka"), b"\x04\0\xff\xff"),
        ),
        "replay": (lambda _: token,),
        "other/localhost": (lambda _: other.step(),),
        "[Dd]efective|[Ii]nvalid": (lambda _: b"\x60\x03abc",),
        "nothing left to send": (lambda _: token_of_mutual, lambda _: b"more"),
    }
    token_of_layer = layer.step()
    flags = gssapi.RequirementFlag.mutual_authentication
    token_of_mutual = gssapi.SecurityContext(name=layer.target_name, usage="initiate", flags=flags).step()
    for words, tokens in refused.items():
        code, message = exchange(kerberos, *tokens)
        assert (code, message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID), words
        until_logged(kerberos, f"failed authentication: Kerberos: .*({words})")


def until_logged(broker: OdradekProcess, pattern: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not re.search(pattern, broker.log_file.read_text()):
        assert time.monotonic() < deadline, broker.last_words()
        time.sleep(0.05)
