"""Kerberos settings with which no client could log in raise an error that gives the reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.authentication.sasl_listeners import SaslListeners
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.security.kdc import REALM, Kdc

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
WHOLE = f'{MODULE} useKeyTab=true storeKey=true serviceName=kafka keyTab="missing" principal="kafka/host@{REALM}";'
JAAS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"


def read(jaas: str | None, **more: str) -> None:
    properties = {"listeners": "SASL_PLAINTEXT://:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"} | more
    if jaas is not None:
        properties[JAAS] = jaas
    SaslListeners(BrokerConfig(properties), MetadataCache()).of("SASL_PLAINTEXT", "SASL_PLAINTEXT")


@pytest.mark.parametrize(
    ("jaas", "words"),
    [
        (None, f"{JAAS} is not set"),
        (
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="a";',
            "the login module of GSSAPI is",
        ),
        (f"{MODULE} useKeyTab=true serviceName=kafka;", "the principal is missing"),
        (f'{MODULE} useKeyTab=true serviceName=kafka principal="kafka@{REALM}";', "has no host"),
        (f'{MODULE} serviceName=kafka principal="kafka/host@{REALM}";', "useKeyTab=true is missing"),
        (WHOLE.replace(" serviceName=kafka", ""), "No serviceName defined in either JAAS or Kafka config"),
        (WHOLE, f"no key of kafka/host@{REALM}"),
    ],
)
def test_an_incomplete_login_module_is_refused(jaas: str | None, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        read(jaas)


def test_two_names_of_the_service_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="Conflicting serviceName values"):
        read(WHOLE, **{"sasl.kerberos.service.name": "other"})


@pytest.mark.usefixtures("processes")
def test_a_keytab_without_the_principal_is_refused(tmp_path: Path) -> None:
    with Kdc(tmp_path) as kdc:
        keytab = kdc.keytab("kafka/other")
    with pytest.raises(InvalidConfig, match=f"no key of kafka/host@{REALM}"):
        read(WHOLE.replace("missing", str(keytab)))
    read(WHOLE.replace("missing", f"FILE:{keytab}").replace("kafka/host", "kafka/other"))


@pytest.mark.usefixtures("processes")
def test_a_rule_that_is_none_is_refused(tmp_path: Path) -> None:
    with Kdc(tmp_path) as kdc:
        keytab = kdc.keytab("kafka/host")
    with pytest.raises(InvalidConfig, match="Invalid rule: RULE:x"):
        read(WHOLE.replace("missing", str(keytab)), **{"sasl.kerberos.principal.to.local.rules": "RULE:x"})


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(InvalidConfig, match=r"pip install .*odradek\[kerberos\]"):
        read(WHOLE)
