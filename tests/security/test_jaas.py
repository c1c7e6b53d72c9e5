"""Parsing of `sasl.jaas.config`, as by Java's StreamTokenizer."""

from __future__ import annotations

import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.authentication.jaas import JaasEntry, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="admin" password="a b;c"', {"username": "admin", "password": "a b;c"}),
        ("username='admin' user_al-ice=\"x\"", {"username": "admin", "user_al-ice": "x"}),
        ("username=admin password=sec-ret_$1", {"username": "admin", "password": "sec-ret_$1"}),
        (r'password="a\"b\\c\101\n"', {"password": 'a"b\\cA\n'}),
        ('a="1" /* b="2" */ c="3" // d="4"\n e="5"', {"a": "1", "c": "3", "e": "5"}),
        ('a="1" a="2"', {"a": "2"}),
        ('a="ä€" "b c"="d"', {"a": "ä€", "b c": "d"}),
        ('a=""', {"a": ""}),
        ("", {}),
    ],
)
def test_options_are_words_or_quoted(options: str, expected: dict[str, str]) -> None:
    assert parse_jaas(f"{MODULE} required {options};") == JaasEntry(MODULE, expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/* nothing */",
        MODULE,
        f"{MODULE} required",
        f'{MODULE} required password="se3cret"',
        f'{MODULE} needed password="se3cret";',
        f"{MODULE} required password=3se3cret;",
        f"{MODULE} required password=-se3cret;",
        f"{MODULE} required password=;",
        f'{MODULE} required password "se3cret";',
        f"{MODULE} required = se3cret;",
        f'{MODULE} required password="se3cret"; {MODULE} required;',
        '123 required password="se3cret";',
        'com.sun.security.auth.module.JndiLoginModule required a="se3cret";',
        # A slash begins a comment, which includes the semicolon.
        f"{MODULE} required password=a/se3cret;",
    ],
)
def test_invalid_jaas_config_is_refused_without_a_secret_in_the_text(text: str) -> None:
    with pytest.raises(InvalidConfig) as rejected:
        parse_jaas(text)
    assert "se3cret" not in str(rejected.value)


def test_an_entry_shows_no_value() -> None:
    assert "se3cret" not in repr(parse_jaas(f'{MODULE} required password="se3cret";'))
