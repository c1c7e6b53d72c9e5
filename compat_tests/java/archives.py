"""Makes the archives of class data for JVMs of tests: `python -m compat_tests.java.archives`, 30 s of CPU for each release.

A broker and the tools write lists of the classes that they load; a JVM puts these classes, parsed and verified, into an
archive that later JVMs map into memory. An archive is made anew when a jar or the JVM has changed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..oracle import QUICK_JVM, SINGLE_NODE, ApacheKafka
from .fetch import ORACLE, PROGRAMS, SPECIFICATION, ToolsMissing, classpath, java
from .program import archive
from .tool import ToolHost

_DEADLINE_S = 300
_TOPIC, _RECORDS = "training", "100"


def make(version: str) -> Path:
    """Makes the archive of a release; a no-op when it is there. Removes those of earlier jars and JVMs."""
    made = archive(version)
    if made.exists():
        return made
    print(f"making the archive of classes of Apache Kafka {version} ...", flush=True)
    for old in PROGRAMS.glob(f"kafka-{version}-*.jsa"):
        old.unlink()
    with tempfile.TemporaryDirectory(dir=PROGRAMS) as folder:
        classes, written = Path(folder) / "classes", Path(folder) / "archive"
        classes.write_text("".join(f"{line}\n" for line in _loaded_classes(version, Path(folder))))
        flags = [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={written}", "-Xlog:cds*=off"]
        dump = [java(), "-Xshare:dump", *flags, "-cp", classpath(version)]
        subprocess.run(dump, check=True, capture_output=True, timeout=_DEADLINE_S)
        written.replace(made)
    return made


def _loaded_classes(version: str, folder: Path) -> list[str]:
    """Returns the lines of the lists of a broker and, for the oracle, of the tools, each once."""
    of_broker, of_tools = folder / "broker.classes", folder / "tools.classes"
    broker = ApacheKafka(folder / "kafka", SINGLE_NODE, version=version, jvm=(*QUICK_JVM, _list_to(of_broker)))
    with broker, ToolHost(ORACLE, _list_to(of_tools)) as tools:
        for tool, *arguments in _uses(broker.bootstrap):
            tools.run(tool, *arguments, stdin="a\nb\n").checked()
    files = (of_broker, of_tools) if version == ORACLE else (of_broker,)
    return list(dict.fromkeys(line for file in files for line in file.read_text().splitlines()))


def _list_to(file: Path) -> str:
    return f"-XX:DumpLoadedClassList={file}"


def _uses(bootstrap: str) -> Iterator[Iterable[str]]:
    """Yields the tools that run, with their arguments: all kinds of clients."""
    package, address = "org.apache.kafka.tools", ("--bootstrap-server", bootstrap)
    topic = ("--topic", _TOPIC)
    yield f"{package}.TopicCommand", *address, "--create", *topic, "--partitions", "2"
    yield f"{package}.TopicCommand", *address, "--describe"
    producer = ("--num-records", _RECORDS, "--record-size", "100", "--throughput", "-1")
    settings = ("--command-property", f"bootstrap.servers={bootstrap}", "compression.type=lz4")
    yield f"{package}.ProducerPerformance", *topic, *producer, *settings
    yield f"{package}.ProducerPerformance", *topic, *producer, "--transactional-id", "training", *settings
    yield f"{package}.ConsoleProducer", *address, *topic
    for protocol in ("classic", "consumer"):
        group = ("--group", protocol, "--command-property", f"group.protocol={protocol}")
        reading = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
        yield f"{package}.consumer.ConsoleConsumer", *address, *topic, *reading, *group
    yield f"{package}.ConsumerPerformance", *address, *topic, "--num-records", "2"
    yield f"{package}.consumer.group.ConsumerGroupCommand", *address, "--describe", "--all-groups"
    share = ("--entity-type", "groups", "--entity-name", "share", "--add-config", "share.auto.offset.reset=earliest")
    yield "kafka.admin.ConfigCommand", *address, "--alter", *share
    yield f"{package}.consumer.ConsoleShareConsumer", *address, *topic, "--group", "share", "--max-messages", "2"
    yield f"{package}.GroupsCommand", *address, "--list"
    yield f"{package}.GetOffsetShell", *address
    yield f"{package}.FeatureCommand", *address, "describe"
    yield f"{package}.MetadataQuorumCommand", *address, "describe", "--status"
    yield f"{package}.BrokerApiVersionsCommand", *address


def main() -> int:
    try:
        for version in (ORACLE, SPECIFICATION):
            make(version)
    except ToolsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
