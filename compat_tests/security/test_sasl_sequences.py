"""SASL sequences, right and wrong, to Apache Kafka and to Odradek: same codes, same messages, in the same order, and the
same connections closed.

One difference is intended: an unknown SCRAM user fails at the second message here, where a wrong password fails.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.protocol.schema import Message

from compat_tests.security.secured import DELAY_MS, MAX_RECEIVE_BYTES, PLAIN_USERS, SCRAM_USERS, Secured
from compat_tests.wire import ConnectionClosed, WireClient
from tests.security.exchanges import ScramClient, plain

_AT_ONCE = 16
_MORE_TRIES = 3
ALICE = plain("alice", PLAIN_USERS["alice"])
BOB = plain("bob", PLAIN_USERS["bob"])
WRONG = plain("alice", "wrong")
VERSIONS = ApiVersionsRequest(client_software_name="odradek", client_software_version="1")
ODD_VERSIONS = ApiVersionsRequest(client_software_name="a b", client_software_version="1")


class Conversation:
    """A connection that notes the broker's responses."""

    def __init__(self, bootstrap: str) -> None:
        self.client = WireClient(bootstrap, timeout=60)
        self.notes: list[Any] = []

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request; notes the response or the end of the connection, and whether a failure was delayed."""
        began = time.monotonic()
        name = type(request).__name__
        try:
            response = self.client.call(request, version)
        except ConnectionClosed:
            self.notes.append((name, "closed", _is_delayed(began)))
            return None
        reported = {
            key: getattr(response, key)
            for key in ("error_code", "error_message", "session_lifetime_ms")
            if hasattr(response, key)
        }
        if hasattr(response, "mechanisms"):
            reported["mechanisms"] = sorted(response.mechanisms)
        self.notes.append((name, reported, bool(reported.get("error_code")) and _is_delayed(began)))
        return response

    def raw(self, token: bytes) -> bytes | None:
        began = time.monotonic()
        try:
            self.client.send_bytes(struct.pack(">i", len(token)) + token)
            response = self.client.receive_frame()
        except ConnectionClosed:
            self.notes.append(("token", "closed", _is_delayed(began)))
            return None
        self.notes.append(("token", "answered" if response else "answered with nothing"))
        return response

    def bytes(self, data: bytes) -> None:
        began = time.monotonic()
        try:
            self.client.send_bytes(data)
            self.notes.append(("bytes", self.client.receive_frame()[:6].hex()))  # correlation id and error code
        except ConnectionClosed:
            self.notes.append(("bytes", "closed", _is_delayed(began)))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def is_open(self) -> None:
        self.ask(MetadataRequest(topics=[]), 9)


def _is_delayed(began: float) -> bool:
    return time.monotonic() - began > DELAY_MS / 1000 - 0.1


def plain_versions(version: int) -> Callable[[Conversation], None]:
    def execute(it: Conversation) -> None:
        it.ask(VERSIONS, 3)
        it.handshake()
        it.authenticate(ALICE, version)
        it.is_open()

    return execute


def before_authentication(request: Message, version: int) -> Callable[[Conversation], None]:
    return lambda it: it.ask(request, version)


def after_handshake(request: Message, version: int) -> Callable[[Conversation], None]:
    def execute(it: Conversation) -> None:
        it.handshake()
        it.ask(request, version)
        it.is_open()

    return execute


def rejected_plain(token: bytes) -> Callable[[Conversation], None]:
    def execute(it: Conversation) -> None:
        it.handshake()
        it.authenticate(token)
        it.is_open()

    return execute


def scram(mechanism: str, user: str, password: str, **more: Any) -> Callable[[Conversation], None]:
    def execute(it: Conversation) -> None:
        it.handshake(mechanism)
        client = ScramClient(mechanism[6:].replace("-", "").lower(), user, password, **more)
        challenge = it.authenticate(client.first)
        if challenge is not None and not challenge.error_code:
            it.authenticate(client.final(challenge.auth_bytes))
        it.is_open()

    return execute


def scram_with(final: Callable[[ScramClient, bytes], bytes]) -> Callable[[Conversation], None]:
    """Sends an invalid final message."""

    def execute(it: Conversation) -> None:
        it.handshake("SCRAM-SHA-256")
        client = ScramClient("sha256", "sam", SCRAM_USERS["sam"])
        challenge = it.authenticate(client.first)
        it.authenticate(final(client, challenge.auth_bytes))
        it.is_open()

    return execute


def bare_tokens(it: Conversation) -> None:
    it.ask(VERSIONS, 0)
    it.handshake(version=0)
    it.raw(ALICE)
    it.is_open()


def bare_scram(it: Conversation) -> None:
    it.handshake("SCRAM-SHA-512", version=0)
    client = ScramClient("sha512", "sam", SCRAM_USERS["sam"])
    it.raw(client.final(it.raw(client.first) or b""))
    it.is_open()


def bare_wrong_plain(it: Conversation) -> None:
    it.handshake(version=0)
    it.raw(WRONG)


def bare_garbage_for_scram(it: Conversation) -> None:
    it.handshake("SCRAM-SHA-256", version=0)
    it.raw(b"garbage")


def header_after_version_0(it: Conversation) -> None:
    it.handshake(version=0)
    it.authenticate(ALICE)


def versions_twice(it: Conversation) -> None:
    it.ask(ODD_VERSIONS, 3)
    it.ask(VERSIONS, 3)
    it.ask(VERSIONS, 3)


def versions_of_the_future(it: Conversation) -> None:
    body = struct.pack(">hhih", 18, 99, 1, 1) + b"c\0" + b"\1\1\0"
    it.bytes(struct.pack(">i", len(body)) + body)
    it.handshake()
    it.authenticate(ALICE)
    it.is_open()


def unknown_mechanism(version: int) -> Callable[[Conversation], None]:
    def execute(it: Conversation) -> None:
        it.handshake("GSSAPI", version)
        it.is_open()

    return execute


def mechanism_switched(it: Conversation) -> None:
    it.handshake("SCRAM-SHA-256")
    it.handshake("PLAIN")
    it.is_open()


def plain_token_for_scram(it: Conversation) -> None:
    it.handshake("SCRAM-SHA-256")
    it.authenticate(ALICE)
    it.is_open()


def sasl_after_authentication(it: Conversation) -> None:
    it.handshake()
    it.authenticate(ALICE)
    it.handshake()
    it.authenticate(ALICE, 0)
    it.is_open()


def oversized_first(it: Conversation) -> None:
    it.bytes(struct.pack(">i", MAX_RECEIVE_BYTES + 1))


def oversized_token(it: Conversation) -> None:
    it.handshake()
    it.bytes(struct.pack(">i", MAX_RECEIVE_BYTES + 1))


def negative_size(it: Conversation) -> None:
    it.bytes(struct.pack(">i", -1))


def http(it: Conversation) -> None:
    it.bytes(b"GET / HTTP/1.1\r\n\r\n")


def gssapi_of_old_clients(it: Conversation) -> None:
    it.raw(b"\x60\x82\x02\x2f\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")


def empty_frame(it: Conversation) -> None:
    it.raw(b"")


def truncated_authenticate(it: Conversation) -> None:
    it.handshake()
    body = struct.pack(">hhih", 36, 0, 1, 1) + b"c" + struct.pack(">i", 100) + b"short"
    it.bytes(struct.pack(">i", len(body)) + body)


def large_after_authentication(it: Conversation) -> None:
    """The size limit of SASL does not apply after authentication."""
    it.handshake()
    it.authenticate(ALICE)
    it.ask(ListGroupsRequest(states_filter=["x" * (2 * MAX_RECEIVE_BYTES)]), 4)


SEQUENCES: dict[str, Callable[[Conversation], None]] = {
    **{f"PLAIN with SaslAuthenticate v{version}": plain_versions(version) for version in (0, 1, 2)},
    "Metadata first": before_authentication(MetadataRequest(topics=[]), 9),
    "SaslAuthenticate first": before_authentication(SaslAuthenticateRequest(auth_bytes=ALICE), 2),
    "CreateTopics first": before_authentication(CreateTopicsRequest(), 5),
    "Metadata after the handshake": after_handshake(HeartbeatRequest(group_id="g"), 4),
    "ListGroups after the handshake": after_handshake(ListGroupsRequest(), 3),
    "ApiVersions after the handshake": after_handshake(VERSIONS, 3),
    "ApiVersions again": versions_twice,
    "ApiVersions of an unknown version": versions_of_the_future,
    "unknown mechanism v0": unknown_mechanism(0),
    "unknown mechanism v1": unknown_mechanism(1),
    "a mechanism in lower case": lambda it: it.handshake("plain"),
    "mechanism switched midway": mechanism_switched,
    "a token of PLAIN for SCRAM": plain_token_for_scram,
    "SASL after the authentication": sasl_after_authentication,
    "wrong password": rejected_plain(WRONG),
    "unknown user": rejected_plain(plain("nobody", "x")),
    "no user": rejected_plain(plain("", "x")),
    "no password": rejected_plain(plain("alice", "")),
    "two parts": rejected_plain(b"\0alice"),
    "four parts": rejected_plain(ALICE + b"\0"),
    "no token": rejected_plain(b""),
    "another identity": rejected_plain(plain("alice", PLAIN_USERS["alice"], "bob")),
    "another identity and a wrong password": rejected_plain(plain("alice", "x", "bob")),
    "bare tokens": bare_tokens,
    "bare SCRAM": bare_scram,
    "bare tokens, wrong password": bare_wrong_plain,
    "bare tokens, garbage for SCRAM": bare_garbage_for_scram,
    "SaslAuthenticate after a handshake of version 0": header_after_version_0,
    "SCRAM-SHA-256": scram("SCRAM-SHA-256", "sam", SCRAM_USERS["sam"]),
    "SCRAM-SHA-512": scram("SCRAM-SHA-512", "sam", SCRAM_USERS["sam"]),
    "SCRAM of a name with odd characters": scram("SCRAM-SHA-512", "comma=2Cequals=3D", SCRAM_USERS["comma,equals="]),
    "SCRAM with extensions": scram("SCRAM-SHA-256", "sam", SCRAM_USERS["sam"], extensions=",a=b"),
    "SCRAM with another identity": scram("SCRAM-SHA-256", "sam", SCRAM_USERS["sam"], header="n,a=bob,"),
    "SCRAM with channel binding": scram("SCRAM-SHA-256", "sam", SCRAM_USERS["sam"], header="y,,"),
    "SCRAM with a wrong password": scram("SCRAM-SHA-256", "sam", "wrong"),
    "SCRAM as a user of the other kind": scram(
        "SCRAM-SHA-256", "sam", SCRAM_USERS["sam"], extensions=",tokenauth=TRUE"
    ),
    "SCRAM with a nonce of its own": scram_with(lambda client, challenge: client.final(challenge, nonce="other")),
    "SCRAM with a proof that is too short": scram_with(
        lambda client, challenge: client.final(challenge).rpartition(b",")[0] + b",p=AAAA"
    ),
    "SCRAM with garbage at the end": scram_with(lambda client, challenge: b"garbage"),
    "a giant frame first": oversized_first,
    "a giant token": oversized_token,
    "a negative size": negative_size,
    "HTTP": http,
    "a token of GSSAPI first": gssapi_of_old_clients,
    "an empty frame": empty_frame,
    "a truncated SaslAuthenticate": truncated_authenticate,
    "a large request after the authentication": large_after_authentication,
}
_AT_ONCE_WITHOUT_DELAY = "a frame that is too large ends the connection without the delay"
#: Intended differences of Odradek, with reasons: the sequence runs and must differ.
MEANT = {
    **dict.fromkeys(("a giant frame first", "a giant token", "a negative size", "HTTP"), _AT_ONCE_WITHOUT_DELAY),
    "SCRAM with a proof that is too short": "it is answered as any other wrong proof",
    "SCRAM as a user of the other kind": "an unknown token fails where a wrong password fails",
}


def executed(sequence: Callable[[Conversation], None], bootstrap: str) -> list[Any]:
    conversation = Conversation(bootstrap)
    try:
        sequence(conversation)
    finally:
        conversation.client.close()
    return conversation.notes


def without_delays(notes: list[Any]) -> list[Any]:
    return [note[:2] for note in notes]


@pytest.fixture(scope="module")
def conversations(secured: Secured, secured_oracle: Secured) -> dict[str, tuple[list[Any], list[Any]]]:
    """Returns the responses of both brokers to each sequence. The delay after failures takes most of the time."""
    addresses = (secured.at("SASL"), secured_oracle.at("SASL"))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pairs = {
            name: [pool.submit(executed, sequence, address) for address in addresses]
            for name, sequence in SEQUENCES.items()
        }
        responses = {name: (ours.result(), kafkas.result()) for name, (ours, kafkas) in pairs.items()}
    # A busy machine may delay a response by as much as a broker delays a failure. Such a difference counts when it stays;
    # any other counts at once.
    for name, sequence in SEQUENCES.items():
        for _ in range(_MORE_TRIES):
            ours, kafkas = responses[name]
            if name in MEANT or ours == kafkas or without_delays(ours) != without_delays(kafkas):
                break
            responses[name] = executed(sequence, addresses[0]), executed(sequence, addresses[1])
    return responses


@pytest.mark.oracle
@pytest.mark.parametrize("name", SEQUENCES)
def test_both_brokers_answer_a_sequence_alike(name: str, conversations: dict[str, tuple[list[Any], list[Any]]]) -> None:
    ours, kafkas = conversations[name]
    if name in MEANT:
        assert ours != kafkas, f"no difference any more: {MEANT[name]}"
    else:
        assert ours == kafkas
