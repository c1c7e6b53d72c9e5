"""Changes of the access rules, applied in steps: kept decisions are forgotten before each pause and at the end."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.metadata.image import AclImage
from odradek.server.access.audit import AuditLog
from odradek.server.access.authorization.authorization import STANDARD_CLASS, Authorization

PER_STEP = 64


def rules(count: int) -> dict[bytes, AclImage]:
    return {
        number.to_bytes(16, "big"): AclImage(2, f"t{number}", 3, "User:alice", "*", 3, 3) for number in range(count)
    }


@pytest.mark.parametrize(("count", "pauses"), [(0, 0), (1, 1), (PER_STEP, 1), (PER_STEP + 1, 2), (2 * PER_STEP + 1, 3)])
def test_decisions_are_forgotten_before_each_pause(count: int, pauses: int) -> None:
    audit: Any = object.__new__(AuditLog)
    audit.writes = lambda level: False
    authorization = Authorization({"authorizer.class.name": STANDARD_CLASS}, audit)
    versions = [authorization.version]
    for _ in authorization.steps({}, rules(count), is_first=True):
        versions.append(authorization.version)
    versions.append(authorization.version)
    assert len(versions) == pauses + 2 and versions == sorted(set(versions)), "each is a new version"
    assert authorization.rule_count == count
    after = authorization.version
    for _ in authorization.steps(rules(count), {}, is_first=False):
        pytest.fail("nothing has changed")
    assert authorization.version == after
