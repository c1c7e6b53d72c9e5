"""A message with a number has the singular for one."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

import pytest
from odradek.client.wording import counted

from tests.harness.facts import kept_facts
from tests.harness.sources import files, nodes_of

#: Packages whose messages a person reads. Lines of the log keep their words whatever the number is.
PACKAGES = ("admin", "archive", "cli", "columns", "console", "spark")
_NOUNS = (
    "records",
    "brokers",
    "partitions",
    "replicas",
    "topics",
    "groups",
    "offsets",
    "segments",
    "errors",
    "rows",
    "tables",
    "values",
    "members",
    "ACLs",
)
_PLURAL = re.compile(rf"^ (?:{'|'.join(_NOUNS)})\b")
#: Numbers that are never one.
NEVER_ONE = {
    "cli/local_cluster/plan.py": "a cluster has two brokers or more where a port or a number is refused",
    "cli/cluster_command.py": "a cluster of one is a broker",
    "cli/processes/supervisor.py": "one process has no supervisor",
    "cli/format_command.py": "one process has no supervisor",
}
#: Words before such a noun. Named limits, in capitals, are more than one.
WORDS = {"named.format", "_form_of(kind)"}


@pytest.mark.parametrize(("number", "expected"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_noun_follows_its_number(number: int, expected: str) -> None:
    assert counted(number, "record") == expected
    assert counted(number, "batch", "batches") == ("1 batch" if number == 1 else f"{number} batches")


@kept_facts
def uncounted(name: str) -> list[str]:
    """Messages with a number and a plural."""
    found = []
    for node in nodes_of(name):
        if not isinstance(node, ast.JoinedStr):
            continue
        for number, after in pairwise(node.values):
            shown = ast.unparse(number.value) if isinstance(number, ast.FormattedValue) else ""
            is_number = bool(shown) and "counted" not in shown and shown not in WORDS and not shown.isupper()
            if is_number and isinstance(after, ast.Constant) and _PLURAL.match(str(after.value)):
                found.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    return found


def test_messages_for_persons_count_their_nouns() -> None:
    names = [name for name in files(*(f"{package}/*.py" for package in PACKAGES)) if name not in NEVER_ONE]
    assert len(names) > 200
    assert [text for name in names for text in uncounted(name)] == []
