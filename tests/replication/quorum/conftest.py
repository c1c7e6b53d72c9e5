"""The quorum fixture shared by several test files."""

from __future__ import annotations

import pytest

from tests.replication.quorum.harness.transcript import Transcript


@pytest.fixture
def quorum() -> Transcript:
    """Returns a quorum in which node 1 leads 2 and 3 in epoch 1, with everything committed."""
    quorum = Transcript()
    quorum.voters(1, 2, 3)
    quorum.late(1)
    quorum.deliver()
    return quorum
