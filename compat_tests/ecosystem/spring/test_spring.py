"""Spring for Apache Kafka: an application (Application.java) with transactions, retries, batches, replies; run twice."""

from __future__ import annotations

import pytest

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.running import java, run

ROUND = 300


@pytest.mark.timeout(600)
def test_an_application_works_and_resumes(bootstrap: str, topic: str, group: str) -> None:
    topic, group = topic[:50], group[:50]
    reference_client.create(bootstrap, topic, 2)
    flags = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)
    for part in (0, 1):
        numbers = range(part * ROUND, (part + 1) * ROUND)
        values = [*map(str, numbers), "bad"]
        reference_client.produce(bootstrap, topic, values, values)
        printed = run(java("spring", "Application", bootstrap, topic, group, str(ROUND), jvm=flags))
        assert "reply how are you? well" in printed
        # Each member counts its own tries: a rebalance between them restarts the count.
        assert int(printed.split("tries ")[1].split()[0]) >= 3, printed
        reference_client.await_committed(bootstrap, group, (ROUND + 1) * (part + 1))
    doubled = reference_client.records(bootstrap, f"{topic}-doubled")
    assert sorted(int(one.value or "") for one in doubled) == [2 * number for number in range(2 * ROUND)]
    assert "never" in [one.value for one in reference_client.records(bootstrap, f"{topic}-doubled", "read_uncommitted")]
    dead = reference_client.records(bootstrap, f"{topic}-dlt")
    assert [one.value for one in dead] == ["bad", "bad"]
    assert all(b"a bad record" in dict(one.headers)["kafka_dlt-exception-message"] for one in dead)
    assert dict(dead[0].headers)["kafka_dlt-original-topic"].decode() == topic
