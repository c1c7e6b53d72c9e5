"""kafka-python's own integration tests pass against the broker, as far as tests.allow lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests import allow_list
from compat_tests.kafka_python import suite

ALLOWED = Path(__file__).resolve().parent / "tests.allow"


@pytest.mark.timeout(600)
def test_the_clients_own_integration_tests_pass(bootstrap: str, target: str, tmp_path: Path) -> None:
    outcomes = suite.run(bootstrap, report=tmp_path / "results.xml")
    allowed = [name for name in allow_list.read(ALLOWED) if not allow_list.is_own(name)]
    missed = allow_list.shortfall(allowed, outcomes)
    assert not missed, f"{missed}\n{suite.failures(tmp_path / 'results.xml', list(missed))}"
    new = allow_list.growth(allowed, outcomes)
    assert target != "odradek" or not new, f"these pass now: add them to {ALLOWED.name}: {new}"
