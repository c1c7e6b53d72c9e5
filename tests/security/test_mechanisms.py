"""PLAIN and SCRAM: accepted and rejected logins, and the content of the responses."""

from __future__ import annotations

import base64
import time

import pytest
from odradek.client.sasl import AuthenticationFailed
from odradek.metadata.credentials import SCRAM_SHA_256, SCRAM_SHA_512
from odradek.server.access.authentication.mechanism import Identity
from odradek.server.access.authentication.plain import PlainServer, password_check
from odradek.server.access.authentication.scram import ScramServer

from tests.security.exchanges import SCRAM_USERS, ScramClient, plain

DIGESTS = {"sha256": SCRAM_SHA_256, "sha512": SCRAM_SHA_512}


def scram(digest: str = "sha256") -> ScramServer:
    return ScramServer(DIGESTS[digest], SCRAM_USERS)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (plain("", "alice-secret"), "Authentication failed: username not specified"),
        (plain("alice", ""), "Authentication failed: password not specified"),
        (plain("alice", "alice-secreT"), "Authentication failed: Invalid username or password"),
        (plain("nobody", "alice-secret"), "Authentication failed: Invalid username or password"),
        (b"\0\xff\xfe\0\xff", "Authentication failed: Invalid username or password"),
        (
            plain("alice", "alice-secret", "root"),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain_refuses_with_the_words_of_kafka(token: bytes, words: str) -> None:
    server = PlainServer(password_check({"alice": "alice-secret"}))
    with pytest.raises(AuthenticationFailed) as failed:
        server.evaluate(token, 0)
    assert failed.value.shown == words
    assert server.identity is None


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_plain_admits_the_right_password(authorization_id: str) -> None:
    server = PlainServer(password_check({"alice": "alice-secret"}))
    assert server.evaluate(plain("alice", "alice-secret", authorization_id), 0) == b""
    assert server.identity == Identity("alice")


@pytest.mark.parametrize("digest", DIGESTS)
def test_scram_admits_the_right_password_and_proves_itself(digest: str) -> None:
    server, client = scram(digest), ScramClient(digest, "bob", "pencil")
    last = server.evaluate(client.final(server.evaluate(client.first, 0)), 0)
    assert base64.b64decode(last.removeprefix(b"v=")) == client.server_signature
    assert server.identity == Identity("bob")


@pytest.mark.parametrize(
    "client",
    [
        ScramClient("sha256", "bob", "wrong"),
        ScramClient("sha256", "nobody", "pencil"),
        ScramClient("sha256", "token-1", "hmac of the token"),
        ScramClient("sha256", "bob", "pencil", extensions=",tokenauth=true"),
    ],
    ids=["wrong password", "unknown user", "token without tokenauth", "user as a token"],
)
def test_scram_refuses_at_the_same_message_whatever_is_wrong(client: ScramClient) -> None:
    server = scram()
    challenge = server.evaluate(client.first, 0)
    with pytest.raises(AuthenticationFailed) as failed:
        server.evaluate(client.final(challenge), 0)
    assert failed.value.shown is None
    assert server.identity is None


def test_an_unknown_user_gets_the_same_salt_each_time_and_another_one_than_its_neighbour() -> None:
    def salt_of(user: str) -> str:
        challenge = scram().evaluate(ScramClient("sha256", user, "x").first, 0).decode()
        return challenge.split(",")[1]

    assert salt_of("nobody") == salt_of("nobody") != salt_of("nobody2")
    assert base64.b64decode(salt_of("nobody")[2:]).isalnum()


def test_an_unknown_user_costs_as_much_as_a_wrong_password() -> None:
    took: dict[str, list[float]] = {"nobody": [], "bob": []}
    for _ in range(300):
        for user, costs_s in took.items():
            client, server = ScramClient("sha256", user, "wrong"), scram()
            final = b"c=biws,r=%s,p=" + base64.b64encode(bytes(32))
            began = time.thread_time()
            nonce = server.evaluate(client.first, 0).split(b",")[0].removeprefix(b"r=")
            with pytest.raises(AuthenticationFailed):
                server.evaluate(final % nonce, 0)
            costs_s.append(time.thread_time() - began)
    nobody_s, bob_s = (sorted(costs_s)[len(costs_s) // 4] for costs_s in took.values())
    assert 0.5 < nobody_s / bob_s < 2


def test_a_delegation_token_authenticates_its_owner_until_it_expires() -> None:
    client = ScramClient("sha256", "token-1", "hmac of the token", extensions=",tokenauth=true")
    server = scram()
    server.evaluate(client.final(server.evaluate(client.first, 49_999)), 49_999)
    assert server.identity == Identity("carol", 50_000, is_token=True)
    late = scram()
    with pytest.raises(AuthenticationFailed):
        late.evaluate(client.final(late.evaluate(client.first, 50_000)), 50_000)


@pytest.mark.parametrize("binding", [b"y,,", b"n,a=root,", b"", b"n,,n", b"p=tls-exporter,,abc"])
def test_channel_binding_other_than_the_header_is_refused(binding: bytes) -> None:
    """RFC 5802, section 5.1: without the check, an attacker on the path could change the header unnoticed."""
    client, server = ScramClient("sha256", "bob", "pencil"), scram()
    challenge = server.evaluate(client.first, 0)
    client.header = binding.decode()  # only the final message has it: the proof is right for what it signs
    with pytest.raises(AuthenticationFailed, match="channel binding"):
        server.evaluate(client.final(challenge), 0)
    assert server.identity is None


def test_a_replayed_final_message_is_refused() -> None:
    client, server = ScramClient("sha256", "bob", "pencil"), scram()
    final = client.final(server.evaluate(client.first, 0))
    server.evaluate(final, 0)
    again = scram()
    again.evaluate(client.first, 0)
    for replayed_to in (again, server):
        with pytest.raises(AuthenticationFailed):
            replayed_to.evaluate(final, 0)
    assert again.identity is None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"n,,n=bob",
        b"n,,n=bob,r=",
        b"y,,n=bob,r=x",
        b"p=tls-unique,,n=bob,r=x",
        b"n,,n=,r=x",
        b"n,,n=b=ob,r=x",
        b"n,,n=bob=2c,r=x",
        b"n,,n=b\0b,r=x",
        b"n,,n=bob,r=\x80",
        "n,,n=böb,r=x".encode(),
        b"n,,n=bob,r=x,extension",
        b"n,,n=bob,r=x,1=2",
        b"n,b=bob,n=bob,r=x",
        b"n,,r=x,n=bob",
        b"," * 500_000,
        b"n,,n=bob,r=x" + b",a=b" * 100_000 + b",",
        b"n,,n=" + b"=3D" * 150_000 + b"=,r=x",
    ],
)
def test_a_first_message_that_is_none_is_refused_within_a_turn(token: bytes) -> None:
    began = time.thread_time()
    with pytest.raises(AuthenticationFailed):
        scram().evaluate(token, 0)
    assert time.thread_time() - began < 0.2


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws,r=NONCE",
        b"c=biws,r=NONCE,p=",
        b"c=biws,r=NONCE,p=AAAA",
        b"c=biws,r=NONCE,p=!!!!",
        b"c=biws,p=AAAA,r=NONCE",
        b"c=*,r=NONCE,p=AAAA",
        b"r=NONCE,c=biws,p=AAAA",
        b"\xff\xff",
    ],
)
def test_a_final_message_that_is_none_is_refused(final: bytes) -> None:
    server = scram()
    challenge = server.evaluate(ScramClient("sha256", "bob", "pencil").first, 0)
    nonce = challenge.split(b",")[0].removeprefix(b"r=")
    with pytest.raises(AuthenticationFailed):
        server.evaluate(final.replace(b"NONCE", nonce), 0)


def test_a_client_that_claims_another_identity_is_refused() -> None:
    client = ScramClient("sha256", "bob", "pencil", header="n,a=root,")
    with pytest.raises(AuthenticationFailed, match="different from username"):
        scram().evaluate(client.first, 0)
