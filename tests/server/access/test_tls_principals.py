"""Principals of certificates: the subject's name as Java prints it, and `ssl.principal.mapping.rules`."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Name, NameAttribute, ObjectIdentifier, RelativeDistinguishedName
from cryptography.x509.oid import NameOID
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.certificate_subjects import rfc2253
from odradek.server.access.listener_tls import ListenerTls
from odradek.server.access.principal_mapping import NoMatchingRule, PrincipalMapping


def name(*attributes: tuple[ObjectIdentifier, str]) -> Name:
    return Name([NameAttribute(oid, value) for oid, value in attributes])


CN, OU, O, L, ST, C = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.COUNTRY_NAME,
)


@pytest.mark.parametrize(("rules", "subject"), [("DEFAULT", name()), ("RULE:^CN=(.*)$/$1/,DEFAULT", name((CN, "x")))])
def test_certificate_with_an_empty_subject_is_refused(rules: str, subject: Name) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now).sign(key, hashes.SHA256())
    der = made.public_bytes(Encoding.DER)
    connection: Any = SimpleNamespace(getpeercert=lambda binary_form: der)
    none: Any = None
    listener = ListenerTls(none, none, None, none, PrincipalMapping(rules), ())
    if subject == name():
        with pytest.raises(ValueError, match="empty name"):
            listener.principal_of(connection)
    else:
        assert listener.principal_of(connection) == "User:x"


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        # The result of `new X500Principal(der).getName()` in Java 17.
        (
            name(
                (C, "DE"), (ST, "Bavaria"), (L, "München"), (O, "Acme, Inc."), (OU, "R+D"), (CN, 'kafka=1 <x>;"q"\\ #')
            ),
            'CN=kafka\\=1 \\<x\\>\\;\\"q\\"\\\\ \\#,OU=R\\+D,O=Acme\\, Inc.,L=München,ST=Bavaria,C=DE',
        ),
        (name((CN, "#lead")), "CN=\\#lead"),
        (name((CN, " lead and trail ")), "CN=\\ lead and trail\\ "),
        (name((CN, "  ")), "CN=\\ \\ "),
        (name((CN, "a@b_c*d!e€")), "CN=a@b_c*d!e€"),
        (name((CN, "nul\0x\ny\r")), "CN=nul\\00x\ny\\\r"),
        (name((NameOID.EMAIL_ADDRESS, "a@b.c"), (CN, "x")), "CN=x,1.2.840.113549.1.9.1=#16056140622e63"),
        (name((NameOID.SERIAL_NUMBER, "77"), (CN, "c")), "CN=c,2.5.4.5=#13023737"),
        (name((ObjectIdentifier("1.2.3.4.5"), "foo")), "1.2.3.4.5=#0c03666f6f"),
        (
            Name(
                [
                    RelativeDistinguishedName([NameAttribute(CN, "multi"), NameAttribute(NameOID.USER_ID, "u1")]),
                    RelativeDistinguishedName([NameAttribute(NameOID.DOMAIN_COMPONENT, "example")]),
                    RelativeDistinguishedName([NameAttribute(NameOID.STREET_ADDRESS, "Way 1")]),
                ]
            ),
            "STREET=Way 1,DC=example,CN=multi+UID=u1",
        ),
        (name(), ""),
    ],
)
def test_names_are_printed_as_java_prints_them(subject: Name, expected: str) -> None:
    assert rfc2253(subject) == expected


DN = "CN=kafka-1.Example.com,OU=Ops,O=Acme"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", DN),
        ("RULE:^CN=([^,]*),.*$/$1/", "kafka-1.Example.com"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/L", "kafka-1.example.com@ops"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/U", "KAFKA-1.EXAMPLE.COM@OPS"),
        ("RULE:^CN=other.*$/x/, RULE:^CN=([^.]*).*$/$1/, DEFAULT", "kafka-1"),
        ("RULE:^CN=other.*$/x/,DEFAULT", DN),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$1-$3/", "kafka-1.Example.com-$3"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/$12/", "kafka-1.Example.com2"),
        ("RULE:^CN=(.*?),OU=(.*?),O=.*$/\\$1/", "$1"),
        ("  DEFAULT  ", DN),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(rules: str, expected: str) -> None:
    assert PrincipalMapping(rules).name_of(DN) == expected


def test_a_name_that_no_rule_matches_is_no_principal() -> None:
    with pytest.raises(NoMatchingRule, match="No rules apply"):
        PrincipalMapping("RULE:^CN=nobody$/x/").name_of(DN)


@pytest.mark.parametrize("rules", ["default", "RULE:^CN=(.*)", "RULE:^CN=(.*/x", "RULE:([/x/"])
def test_a_text_that_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(InvalidConfig, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
