"""AddRaftVoter and RemoveRaftVoter (KIP-853), as clients send them to brokers, with the id of another cluster."""

from __future__ import annotations

from typing import Any

from ..scenario import ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID

VOTER: dict[str, Any] = {"cluster_id": "$another", "voter_id": 99, "voter_directory_id": NO_SUCH_ID}
#: Keeps the cluster id, which the error message contains.
OWN_CLUSTER = prepare("DescribeCluster", keep={"c": "cluster_id"})

SCENARIOS = [
    scenario(
        "AddRaftVoter",
        "a voter of another cluster is not added",
        OWN_CLUSTER,
        ask(
            "AddRaftVoter",
            timeout_ms=5_000,
            listeners=[{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
            **VOTER,
        ),
    ),
    scenario(
        "RemoveRaftVoter", "a voter of another cluster is not removed", OWN_CLUSTER, ask("RemoveRaftVoter", **VOTER)
    ),
]
