"""`odradek format` sets the initial voters (KIP-853): real processes, formatted by the command and started from files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.voter_listeners import VoterListener
from odradek.protocol.uuids import uuid_from_text

from compat_tests.broker_process import free_port
from tests.server.harness.cluster_process import BROKER, CLUSTER_ID, COMBINED, CONTROLLER, Cluster, ClusterNode
from tests.server.harness.quorum_processes import directory_of, has_caught_up, quorum

pytestmark = pytest.mark.usefixtures("processes")

DIRECTORIES = {1: "JEXY6aqzQY-32P5TStzaFg", 2: "VzFzFxKvTpqqvSKvgvwwlA", 3: "oSgNcmLwRxuwpQ0vVtH7zw"}
DEADLINE_S = 60


def formatted(node: ClusterNode, *who_votes: str) -> subprocess.CompletedProcess[str]:
    node.directory.mkdir(exist_ok=True)
    node.file.write_text("".join(f"{key}={value}\n" for key, value in node.properties.items()))
    command = [sys.executable, "-m", "odradek", "format", str(node.file), "-t", CLUSTER_ID, *who_votes]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


class Unformatted(Cluster):
    """Nodes of a quorum whose voters are in the log: their properties have bootstrap servers in place of voters."""

    def add(self, node_id: int, role: str = BROKER) -> ClusterNode:
        self.controller_ports.setdefault(node_id, free_port())
        node = super().add(node_id, role)
        del node.properties["controller.quorum.voters"]
        ask = ",".join(f"127.0.0.1:{port}" for port in self.controller_ports.values())
        node.properties["controller.quorum.bootstrap.servers"] = ask
        return node

    def _format(self, node: ClusterNode) -> None:
        pass

    def voter(self, node_id: int) -> str:
        return f"{node_id}@127.0.0.1:{self.controller_ports[node_id]}:{DIRECTORIES[node_id]}"


def test_three_that_were_named_vote_and_one_that_was_not_joins_them(tmp_path: Path) -> None:
    cluster = Unformatted(tmp_path, [COMBINED, COMBINED, COMBINED])
    named = ",".join(cluster.voter(node_id) for node_id in DIRECTORIES)
    for node in cluster.nodes.values():
        done = formatted(node, "--initial-controllers", named)
        assert done.returncode == 0, done.stderr
        assert f"for cluster {CLUSTER_ID}" in done.stdout
        assert directory_of(node) == uuid_from_text(DIRECTORIES[node.node_id])
    late = cluster.add(4, CONTROLLER)
    assert formatted(late, "--no-initial-controllers").returncode == 0
    with cluster:
        cluster.create_topic("before", replication_factor=3)
        broker = cluster.nodes[1]
        cluster.until(lambda: has_caught_up(quorum(broker), 4), "who was not named has everything")
        assert {voter.replica_id for voter in quorum(broker).current_voters} == {1, 2, 3}
        listener = VoterListener("CONTROLLER", "127.0.0.1", cluster.controller_ports[4])
        add = AddRaftVoterRequest(CLUSTER_ID, 30_000, 4, directory_of(late), [listener])
        assert broker.ask(add, 1).error_code == ErrorCode.NONE
        leader = cluster.until(lambda: max(0, cluster.controller()), "there is a controller")
        cluster.nodes[leader].kill()
        cluster.until(lambda: cluster.controller() not in (-1, leader), "another of the four leads")
        cluster.create_topic("after", replication_factor=2)
        assert set(cluster.partitions("before")) == {0}


def test_one_that_stands_alone_serves_and_others_join_it_later(tmp_path: Path) -> None:
    cluster = Unformatted(tmp_path, [COMBINED])
    assert formatted(cluster.nodes[1], "--standalone").returncode == 0
    assert formatted(cluster.add(2, BROKER), "--no-initial-controllers").returncode == 0
    with cluster:
        cluster.create_topic("t", replication_factor=2)
        assert [voter.replica_id for voter in quorum(cluster.nodes[2]).current_voters] == [1]


@pytest.mark.parametrize(
    ("role", "who_votes", "complaint"),
    [
        (CONTROLLER, ["-I", "2@127.0.0.1:1:VzFzFxKvTpqqvSKvgvwwlA"], "node.id 1 is not among"),
        (CONTROLLER, ["-I", "1@127.0.0.1"], "is not id@host:port:directory"),
        (BROKER, ["-s"], "this node is not a controller"),
        (CONTROLLER, ["-s", "-N"], "not allowed with argument"),
    ],
)
def test_node_that_cannot_vote_gets_the_reason(tmp_path: Path, role: str, who_votes: list[str], complaint: str) -> None:
    (node,) = Unformatted(tmp_path, [role]).nodes.values()
    rejected = formatted(node, *who_votes)
    assert rejected.returncode and complaint in rejected.stderr
    assert not node.data_dir.exists()


def test_voters_may_be_given_once_only(tmp_path: Path) -> None:
    (node,) = Unformatted(tmp_path, [CONTROLLER]).nodes.values()
    node.properties["controller.quorum.voters"] = f"1@127.0.0.1:{free_port()}"
    rejected = formatted(node, "--standalone")
    assert rejected.returncode and "controller.quorum.voters already names the voters" in rejected.stderr


def ended(folder: Path, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "odradek", "format", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("cluster_id", ["xyz", "", "M" * 23])
def test_cluster_id_that_is_no_uuid_is_refused_and_nothing_is_written(tmp_path: Path, cluster_id: str) -> None:
    status, out, err = ended(tmp_path, "--data-dir", "data", "--cluster-id", cluster_id)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "is not 22 characters of URL-safe base64" in err
    assert not (tmp_path / "data").exists()


def test_directory_with_another_text_for_an_id_keeps_it(tmp_path: Path) -> None:
    """Kafka's own tool accepts any text."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=xyz\n")
    words = ["--override", "log.dirs=one,two", "--ignore-formatted"]
    status, out, err = ended(tmp_path, *words, "--cluster-id", "xyz")
    assert (status, err) == (0, "")
    assert out == "odradek: formatted two for cluster xyz (left alone, formatted already: one)\n"
    assert "cluster.id=xyz\n" in (tmp_path / "two" / "meta.properties").read_text()


def test_ignore_formatted_says_that_nothing_was_formatted(tmp_path: Path) -> None:
    assert ended(tmp_path, "--data-dir", "data", "-t", CLUSTER_ID)[0] == 0
    before = (tmp_path / "data" / "meta.properties").read_bytes()
    status, out, err = ended(tmp_path, "--data-dir", "data", "--ignore-formatted")
    assert (status, err) == (0, "")
    assert out == f"odradek: nothing to do, data formatted already for cluster {CLUSTER_ID}\n"
    assert (tmp_path / "data" / "meta.properties").read_bytes() == before
    status, out, err = ended(tmp_path, "--data-dir", "data", "--ignore-formatted", "-t", "AkU3OEVBNTcwNTJENDM2Qg")
    assert (status, out) == (2, "") and f"belong to cluster {CLUSTER_ID}" in err


def _file(place: Path) -> None:
    place.touch()


def _damaged(place: Path) -> None:
    place.mkdir()
    (place / "meta.properties").write_bytes(b"\0rubbish")


def _directory_in_its_place(place: Path) -> None:
    (place / "meta.properties").mkdir(parents=True)


@pytest.mark.parametrize("make", [_file, _damaged, _directory_in_its_place])
def test_directory_that_cannot_be_formatted_is_explained_in_one_line(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "data")
    status, out, err = ended(tmp_path, "--data-dir", "data")
    assert status in (1, 2) and out == "" and err.count("\n") == 1
    assert err.startswith("odradek: data") and "Errno" not in err
