"""A node of a metadata quorum, alone or of two, whose log a test writes."""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.clock import Clock

NODE_ID, OTHER = 3, 4
CLOCK = Clock(lambda: 1_700_000_000)
METADATA_VERSION = 30


def config_of(folder: Path, **properties: str) -> BrokerConfig:
    return BrokerConfig(
        {"node.id": str(NODE_ID), "log.dirs": str(folder)}
        | {key.replace("_", "."): value for key, value in properties.items()}
    )


def of_several(folder: Path) -> BrokerConfig:
    """Returns the configuration of a controller in a quorum of two."""
    return config_of(
        folder, process_roles="broker,controller", controller_listener_names="CONTROLLER",
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093", controller_quorum_voters=f"{NODE_ID}@here:9093,{OTHER}@there:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )  # fmt: skip


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))
