"""A tiered partition moves between the log directories of a broker, with the leader epochs of its remote part."""

from __future__ import annotations

from pathlib import Path

from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

from compat_tests.access import connect
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

from . import tiered

COUNT = 6000


def move(broker: OdradekProcess, destination: Path) -> None:
    topic = AlterReplicaLogDirTopic(tiered.TOPIC, [0])
    with connect(broker.bootstrap) as client:
        done = client.call(AlterReplicaLogDirsRequest([AlterReplicaLogDir(str(destination), [topic])]), 2)
    assert done.results[0].partitions[0].error_code == 0, done


def test_moved_partition_is_read_from_the_store_after_a_kill_too(tmp_path: Path) -> None:
    folder, directories = tmp_path / "store", [tmp_path / "one", tmp_path / "two"]
    properties = tiered.properties(folder) | {"log.dirs": ",".join(map(str, directories))}
    with OdradekProcess(tmp_path / "node", properties) as broker:
        tiered.make_topic(broker.bootstrap)
        values = tiered.values_of(COUNT)
        tiered.produce(broker.bootstrap, values)
        (source,) = [one for one in directories if (one / f"{tiered.TOPIC}-0").exists()]
        (destination,) = [one for one in directories if one != source]
        tiered.await_local_start(source, COUNT // 2)
        move(broker, destination)
        eventually(
            lambda: (destination / f"{tiered.TOPIC}-0").exists() and not (source / f"{tiered.TOPIC}-0").exists(),
            what="the replica is in the other directory",
            deadline_s=60,
        )
        assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
        broker.kill()
        broker.start()
        assert tiered.consume(broker.bootstrap, COUNT) == tiered.numbered(values)
        more = tiered.values_of(COUNT, COUNT)
        tiered.produce(broker.bootstrap, more)
        tiered.await_local_start(destination, COUNT + COUNT // 2)
        assert tiered.consume(broker.bootstrap, 2 * COUNT) == tiered.numbered(values + more)
