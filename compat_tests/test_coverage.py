"""Checks of the whole run: foreign clients use every served API, and every listed test passed."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.protocol.apis import APIS

from compat_tests import allow_list, results
from compat_tests.differential.runner import advertised
from compat_tests.odradek_process import OdradekProcess
from tests.plugins.without_nightly import is_nightly

HERE = Path(__file__).resolve().parent
#: Folders of foreign clients; all must have run, else the table is incomplete.
CLIENTS = ("aiokafka", "franz_go", "java", "kafka_python", "librdkafka", "streams")
#: Requests that only brokers send to each other.
BETWEEN_BROKERS = {
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
}
#: Served APIs that no client requests here, with the reasons; the differential test requests them.
UNASKED = {
    **dict.fromkeys(
        ("SaslHandshake", "SaslAuthenticate"), "clients ask on listeners with SASL, in compat_tests/security"
    ),
    **dict.fromkeys(
        ("CreateDelegationToken", "DescribeDelegationToken", "ExpireDelegationToken", "RenewDelegationToken"),
        "kafka-delegation-tokens asks on a listener with SASL, in compat_tests/security",
    ),
    "StreamsGroupTopologyDescriptionUpdate": "Kafka Streams 4.4 sends it (KIP-1331), and is not published yet",
    "UnregisterController": "the Admin client has it from 4.4 on (KIP-1312), and the oracle's tools are of 4.3",
}


def ran(config: pytest.Config, target: str) -> list[results.Result]:
    """Returns the results of all clients in this run against Odradek."""
    found = [one for one in results.of_run(config) if one.client in CLIENTS]
    if target != "odradek" or {one.client for one in found} != set(CLIENTS):
        pytest.skip("tells something only after the tests of all clients")
    return found


def test_every_served_api_is_used_by_a_foreign_client(
    target: str, odradek: OdradekProcess, pytestconfig: pytest.Config
) -> None:
    used = {APIS[key].name for key, _ in results.requested(ran(pytestconfig, target)) if key in APIS}
    served = set(advertised(odradek.bootstrap)) - BETWEEN_BROKERS - UNASKED.keys()
    assert served <= used, sorted(served - used)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_allow_list_of_a_client_is_what_passes(client: str, target: str, pytestconfig: pytest.Config) -> None:
    outcomes = {one.name: one.outcome for one in ran(pytestconfig, target) if one.client == client}
    listed = [name for name in allow_list.read(HERE / client / "tests.allow") if allow_list.is_own(name)]
    if pytestconfig.pluginmanager.has_plugin("without_nightly"):
        listed = [name for name in listed if not is_nightly(f"compat_tests/{client}/{name}")]
    assert allow_list.shortfall(listed, outcomes) == {}
    new = allow_list.growth(listed, outcomes)
    assert not new, "these pass: add them to tests.allow:\n" + "\n".join(new)
