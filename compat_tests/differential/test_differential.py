"""Apache Kafka and Odradek give the same responses to the same requests, valid and invalid, in every version."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from compat_tests.differential import known
from compat_tests.differential.compare import Side, compare, versions_of
from compat_tests.differential.harness.sides import ALL, KNOWN, chosen_versions, side
from compat_tests.differential.runner import BY_NAME
from compat_tests.differential.scenario import Scenario
from compat_tests.fixtures import UNDER_TEST
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

_MOST_SHOWN = 25
DESCRIPTIONS = {
    "group.streams.topology.description.plugin.class": "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
}


@pytest.fixture(scope="module")
def oracle(apache_kafka: ApacheKafka) -> Side:
    return side("Apache Kafka", apache_kafka)


@pytest.fixture(scope="module")
def specification(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Apache Kafka 4.4.0: the reference where 4.3.1 and Odradek answer differently. Starts at its first use.

    It keeps topology descriptions, as Odradek does, with Apache's plugin for tests.
    """
    directory = tmp_path_factory.mktemp("specification")
    with ApacheKafka(directory, UNDER_TEST | DESCRIPTIONS, version=SPECIFICATION) as broker:
        yield side("Apache Kafka 4.4.0", broker)


@pytest.fixture(scope="module")
def ours(odradek: OdradekProcess) -> Side:
    return side("Odradek", odradek)


@pytest.fixture(scope="module")
def started_ms() -> int:
    """The time that the records of all scenarios count from, the same for all brokers."""
    return int(time.time() * 1000)


@pytest.mark.oracle
@pytest.mark.parametrize("scenario", ALL, ids=lambda one: f"{one.api}: {one.name}")
def test_both_brokers_answer_alike(
    scenario: Scenario, oracle: Side, ours: Side, started_ms: int, request: pytest.FixtureRequest
) -> None:
    versions = versions_of(scenario)
    if request.config.pluginmanager.has_plugin("without_nightly"):
        versions = chosen_versions()[scenario.api, scenario.name]
    done = compare(scenario, oracle, ours, started_ms, versions=versions)
    excused = known.of(scenario, KNOWN)
    left = known.unexplained(done.differences, excused)
    # 4.4 is the reference for its changes and its new versions.
    again = {one.version for one in left} | {v for v in versions if v not in done.executed}
    if again:
        judge: Side = request.getfixturevalue("specification")
        judged = compare(scenario, judge, ours, started_ms, versions=again, mark="-44")
        left = known.unexplained(judged.differences, excused)
        done.executed += judged.executed
        done.differences += judged.differences
    reported = "\n".join(str(one) for one in left[:_MOST_SHOWN])
    assert not left, f"{len(left)} differences, Apache Kafka's value first:\n{reported}"
    assert set(done.executed) == set(versions), "versions were left out"
    idle = known.idle(done.differences, excused)
    assert not idle, f"these known differences are gone: remove them from {known.FILE.name}: {idle}"


def test_make_test_compares_every_version_of_every_api() -> None:
    """`make nightly` compares every version of every scenario."""
    chosen = chosen_versions()
    of_all = {(one.api, version) for one in ALL for version in versions_of(one)}
    assert {(api, version) for (api, _), versions in chosen.items() for version in versions} == of_all
    assert sum(map(len, chosen.values())) < 0.6 * sum(len(versions_of(one)) for one in ALL)


def test_every_api_that_odradek_serves_is_compared(ours: Side) -> None:
    compared = {one.api for one in ALL}
    assert set(ours.offers) <= compared, f"no scenario for {sorted(set(ours.offers) - compared)}"


def test_odradek_offers_every_version_of_what_it_serves(ours: Side) -> None:
    tables = {name: (BY_NAME[name].versions.low, BY_NAME[name].latest_stable_version) for name in ours.offers}
    # Older librdkafka disables compression if a broker does not offer Produce v0.
    tables["Produce"] = (0, tables["Produce"][1])
    assert ours.offers == tables


def test_a_known_difference_belongs_to_a_scenario() -> None:
    names = {(one.api, one.name) for one in ALL}
    assert all((one.api, one.scenario) in names and one.reason for one in KNOWN)
    assert len(names) == len(ALL), "two scenarios of one name"
