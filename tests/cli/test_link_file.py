"""Links in YAML: the options of `odradek mirror create` by their names, and words for files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.cli.link_file import read_link_file
from odradek.client.user_errors import Misused
from odradek.replication.mirror.link import parse_link

GOOD = """
from: a:9092,b:9092
topics: 'orders.*'
groups: '.*'
prefix: eu.
replication-factor: 3
cut-diverged: true
throttle: 1000000
linger: 5
acls: true
quotas: true
share-groups: false
client:
  security.protocol: SASL_SSL
  sasl.password: hunter2
  request.timeout.ms: 5000
"""


def test_file_has_all_of_a_link(tmp_path: Path) -> None:
    file = tmp_path / "link.yaml"
    file.write_text(GOOD)
    link = parse_link("dr", read_link_file(file))
    assert link.bootstrap == (("a", 9092), ("b", 9092)) and link.prefix == "eu." and link.replication_factor == 3
    assert link.cuts_diverged and (link.throttle, link.linger_ms) == (1_000_000, 5) and link.follows_topic("orders-eu")
    assert link.follows_acls and link.follows_quotas and not link.follows_share_groups
    assert link.client == {"security.protocol": "SASL_SSL", "sasl.password": "hunter2", "request.timeout.ms": "5000"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from: [a", "is not YAML: line 1"),
        ("- a", "has no keys"),
        ("", "has no keys"),
        ("form: a", "has form: known are from, topics"),
        ("client: hunter2", "client must have properties"),
        ("client: {sasl.password: [hunter2]}", "sasl.password must be a text"),
    ],
)
def test_bad_file_is_named_without_its_secrets(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "link.yaml"
    file.write_text(text)
    with pytest.raises(Misused, match=words) as raised:
        read_link_file(file)
    assert "hunter2" not in str(raised.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misused, match="cannot be read"):
        read_link_file(tmp_path / "absent.yaml")
