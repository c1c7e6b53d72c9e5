"""`sasl.kerberos.principal.to.local.rules`: the same names as in Apache Kafka, and none where it makes none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.kerberos_names import ShortNames
from odradek.server.access.principal_mapping import NoMatchingRule

from compat_tests.java.program import java_command

_SOURCE = Path(__file__).parent / "KerberosNames.java"
REALM = "ACME.COM"
PRINCIPALS = (
    "alice@ACME.COM",
    "Alice@OTHER.COM",
    "kafka/host1.acme.com@ACME.COM",
    "kafka/host1.acme.com@OTHER.COM",
    "alice",
    "alice/admin",
    "alice-admin@ACME.COM",
    "a/b/c@ACME.COM",
    "a@b@ACME.COM",
    "@ACME.COM",
    "alice@",
    "",
)
RULES = (
    "DEFAULT",
    "RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//,DEFAULT",
    "RULE:[2:$1](kafka)s/.*/broker/,DEFAULT",
    "RULE:[1:$1](.*)s/-admin//g/U,RULE:[2:$1-$2](.*)s/[.]acme[.]com$//",
    "RULE:[1:$1]/L",
    "RULE:[1:$1]L",
    "RULE:[1:$1](A.*)/U,DEFAULT",
    "RULE:[1:$1@$0]",
    "RULE:[2:$2.$1]",
    "RULE:[1:$1](.*)s/(a)(l)/$2$1/",
    "RULE:[1:$1](.*)s/(.)/<$1>/g",
    "RULE:[1:$3]",
    "RULE:[1:pre$1post$]",
    "RULE:[1:constant]",
    "RULE:[1:$1](.*)s/i/\\$1/",
    "RULE:[1:$1]s/a/b",
    "RULE:[1:$1](",
    "rule:[1:$1]",
    "DEFAULT/L",
    "RULE:[1:$1](.*)s/a/b/x",
)


@pytest.fixture(scope="module")
def of_kafka(java_tools: None) -> list[str]:
    words = " -- ".join("\n".join((REALM, rules, *PRINCIPALS)) for rules in RULES)
    arguments = [word for group in words.split(" -- ") for word in (*group.split("\n"), "--")][:-1]
    return subprocess.run(
        java_command(_SOURCE, *arguments), check=True, capture_output=True, text=True, timeout=120
    ).stdout.splitlines()


def of_ours(rules: str) -> list[str]:
    try:
        names = ShortNames(REALM, rules.split(","))
    except InvalidConfig:
        return ["invalid"]
    found = []
    for principal in PRINCIPALS:
        try:
            found.append(f"is {names.short_name(principal)}")
        except NoMatchingRule:
            found.append("none")
    return found


@pytest.mark.oracle
def test_names_are_those_that_apache_kafka_makes(of_kafka: list[str]) -> None:
    ours = [line for rules in RULES for line in of_ours(rules)]
    assert ours == of_kafka
    assert {"invalid", "none", "is alice", "is kafka", "is broker"} <= set(ours)
