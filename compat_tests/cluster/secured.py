"""Clusters of the scenarios with mutual TLS between nodes and SCRAM for clients."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import InitialVoter, format_directories

from compat_tests.broker_process import free_port
from compat_tests.secured_nodes import SecuredNodes
from tests.server.harness.cluster_process import CLUSTER_ID, Cluster, ClusterNode

from .mixed import DynamicMixedCluster, MixedCluster


class SecuredCluster(Cluster):
    """A cluster without a plain-text listener. Its clients connect as in `compat_tests.access.granted`."""

    def __init__(self, directory: Path, roles: Iterable[str], **overrides: str) -> None:
        self._provided = SecuredNodes(directory / "access")
        super().__init__(directory, roles, **overrides)

    @property
    def access(self) -> Path:
        return self._provided.access

    def _format(self, node: ClusterNode) -> None:
        node.properties = self._provided.secured(node.properties, "127.0.0.1", free_port())
        voters = self._voters(node)
        config = BrokerConfig(node.properties)
        users = self._provided.users()
        format_directories(config, CLUSTER_ID, ignore_formatted=True, initial_voters=voters, users=users)

    def _voters(self, node: ClusterNode) -> list[InitialVoter] | None:
        return None


class SecuredMixedCluster(SecuredCluster, MixedCluster):
    """A secured cluster with nodes of Odradek and Apache Kafka."""


class SecuredDynamicMixedCluster(SecuredCluster, DynamicMixedCluster):
    """A secured mixed cluster with dynamic voters."""

    def _voters(self, node: ClusterNode) -> list[InitialVoter] | None:
        return self.use_dynamic_voters(node)


def access_of(cluster: Cluster) -> Path | None:
    """Returns the properties file with which clients connect; None for plain text."""
    return cluster.access if isinstance(cluster, SecuredCluster) else None
