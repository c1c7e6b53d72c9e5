"""Apache Camel: a route from topic to topic (Routes.java) with manual commits, run twice."""

from __future__ import annotations

import pytest

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import java, run

ROUND = 200


@pytest.mark.timeout(600)
def test_a_route_resumes_at_its_commits(bootstrap: str, topic: str, group: str) -> None:
    topic, group = topic[:60], group[:60]
    for name in (topic, f"{topic}-upper", f"{topic}-bad"):
        reference_client.create(bootstrap, name, 2)
    flags = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
    for part in (0, 1):
        values = [*(f"value-{number}" for number in range(part * ROUND, (part + 1) * ROUND)), f"bad-{part}"]
        reference_client.produce(bootstrap, topic, values, values)
        run(java("camel", "Routes", bootstrap, topic, group, str(len(values)), jvm=flags))
        assert sum(reference_client.committed(bootstrap, group).values()) == len(values) * (part + 1)
    found = reference_client.records(bootstrap, f"{topic}-upper")
    wanted = [f"VALUE-{number}" for number in range(2 * ROUND)]
    assert sorted(one.value or "" for one in found) == sorted(wanted)
    assert all((one.key or "").upper() == one.value and dict(one.headers)["route"] == b"camel" for one in found)
    assert sorted(reference_client.values(bootstrap, f"{topic}-bad")) == ["bad-0", "bad-1"]
