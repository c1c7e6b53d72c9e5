"""Metadata that is missing: partitions on the disk without a topic, and a damaged log without another voter."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.client.wording import counted
from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.server.controller.metadata_log import DIRECTORY_NAME, MetadataLost
from odradek.server.controller.metadata_opening import _check_partitions, _is_alone

from tests.server.harness.images import image_with
from tests.server.harness.quorum_logs import quorum_config, quorum_log_in, write_voters
from tests.server.harness.unlocked_directory import unlocked_directory

TOPIC_ID = b"t" * 16


@pytest.mark.parametrize(
    ("known", "unknown", "is_clean", "is_lost"),
    [
        (3, 0, False, False),
        (3, 3, False, False),
        (3, 4, False, True),
        (1, 2, False, True),
        (0, 1, False, True),
        # After a clean stop no deletion is left half done.
        (3, 1, True, True),
        (3, 0, True, False),
    ],
)
def test_more_unknown_than_known_partitions_or_any_after_a_clean_stop_mean_lost_metadata(
    tmp_path: Path, known: int, unknown: int, is_clean: bool, is_lost: bool
) -> None:
    topics = ["known"] * known + ["unknown"] * unknown
    for number, topic in enumerate(topics):
        (tmp_path / f"{topic}-{number}").mkdir()
    (tmp_path / f"unknown-9.{'0' * 32}-delete").mkdir()
    directory = unlocked_directory(tmp_path, had_clean_shutdown=is_clean)
    assert len(directory.replicas()) == known + unknown + 1
    image = image_with(TopicRecord("known", TOPIC_ID))
    quorum_log = quorum_log_in(tmp_path, records=7)
    if is_lost:
        with pytest.raises(MetadataLost, match=f"lacks the topics of {counted(unknown, 'partition')} on"):
            _check_partitions(quorum_log, image, [directory])
    else:
        _check_partitions(quorum_log, image, [directory])


@pytest.mark.parametrize(
    ("configured", "in_log", "has_bootstrap_servers", "is_alone"),
    [
        ([], {1}, False, True),
        ([], {1}, True, True),
        ([], set(), False, True),
        # The voters are unknown, and there are other nodes to find them from.
        ([], set(), True, False),
        ([], {1, 2}, True, False),
        (["1@a:9"], set(), False, True),
        (["1@a:9", "2@b:9"], {1}, False, False),
    ],
)
def test_node_is_alone_only_if_nothing_names_another_voter(
    tmp_path: Path,
    configured: list[str],
    in_log: set[int],
    has_bootstrap_servers: bool,
    is_alone: bool,
) -> None:
    """A damaged metadata log is begun again only where no other node has its records."""
    folder = tmp_path / DIRECTORY_NAME
    write_voters(folder, in_log)
    servers = ["b:9"] if has_bootstrap_servers else []
    config = quorum_config(tmp_path, node_id=1, voters=configured, bootstrap_servers=servers)
    assert _is_alone(config, folder) == is_alone
