"""The tools around Kafka that are tested here: a folder each, with its pinned environment, tests and findings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Tool:
    """A tool. `package` is its name in the file that pins its version."""

    folder: str
    name: str
    package: str
    work: str
    #: Whether `make test` installs and runs it: a small download, and tests of seconds.
    is_kept: bool = False
    #: The tool's programs, for machines without Debian's packages.
    commands: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        return HERE / self.folder


TOOLS = (
    Tool(
        "kcat",
        "kcat",
        "kcat",
        "produces, reads by format and as JSON, resumes a group, looks offsets up by time",
        is_kept=True,
        commands=("kcat",),
    ),
    Tool(
        "kaskade",
        "kaskade",
        "kaskade",
        "its two screens are driven by keys: topics are listed, filtered, created, deleted; records are read",
    ),
    Tool(
        "kafkajs",
        "KafkaJS",
        "kafkajs",
        "admin, gzip, transactions with offsets, a group that resumes",
        is_kept=True,
    ),
    Tool(
        "faststream",
        "FastStream",
        "faststream",
        "subscriber to publisher, batches, on aiokafka and on confluent-kafka; resumes after a restart",
        is_kept=True,
    ),
    Tool(
        "connect",
        "Kafka Connect",
        "connect-runtime",
        "file source and file sink, distributed; the exactly-once source is killed and loses and repeats nothing",
    ),
    Tool(
        "mirror_maker",
        "MirrorMaker 2",
        "connect-mirror",
        "mirrors records, topic configs and group offsets to Apache Kafka and from it",
    ),
    Tool(
        "iceberg_sink",
        "Iceberg's sink for Kafka Connect",
        "iceberg-kafka-connect",
        "JSON records to an Iceberg table with columns that it finds, each row once through a kill of the worker",
    ),
    Tool(
        "flink",
        "Apache Flink's connector",
        "flink-connector-kafka",
        "exactly-once source and sink through a failure of the job; a bounded read; offsets committed by checkpoints",
    ),
    Tool(
        "spring",
        "Spring for Apache Kafka",
        "spring-kafka",
        "listeners, batches, transactions, retries and a dead-letter topic, request and reply",
    ),
    Tool("camel", "Apache Camel", "camel-kafka", "routes from topic to topic, manual commits, resumes after a restart"),
    Tool("faust", "Faust", "faust-streaming", "agents, a table that is recovered from its changelog after a kill"),
    Tool("quix", "Quix Streams", "quixstreams", "state, windows and exactly-once output, resumed after a restart"),
    Tool("bytewax", "Bytewax", "bytewax", "a stateful dataflow from topic to topic, resumed from its recovery store"),
    Tool(
        "sarama",
        "Sarama",
        "github.com/IBM/sarama",
        "admin, idempotent and transactional producers, a group that resumes",
    ),
    Tool(
        "rsyslog",
        "rsyslog (omkafka)",
        "rsyslog-kafka",
        "lines over TCP to a topic, with keys; waits for a broker that restarts",
        commands=("rsyslogd",),
    ),
    Tool(
        "syslog_ng",
        "syslog-ng (kafka-c)",
        "syslog-ng-mod-rdkafka",
        "lines over TCP to a topic, with keys and fields",
        commands=("syslog-ng",),
    ),
)
BY_FOLDER = {tool.folder: tool for tool in TOOLS}
#: Files that pin a tool's environment, by how it is installed.
PINNED_BY = {
    "pip": "requirements.txt",
    "npm": "package-lock.json",
    "go": "go.mod",
    "maven": "pom.xml",
    "debian": "packages.txt",
}


def kind_of(tool: Tool) -> str:
    """Returns how a tool is installed: a key of PINNED_BY."""
    return next(kind for kind, name in PINNED_BY.items() if (tool.home / name).exists())


def pinned_version(tool: Tool) -> str:
    """Returns the version in the file that pins a tool. Debian's is not in packages.txt: see install.py."""
    kind = kind_of(tool)
    text = (tool.home / PINNED_BY[kind]).read_text(encoding="utf-8")
    name = re.escape(tool.package)
    pattern = {
        "pip": rf"^{name}==(\S+)",
        "npm": rf'"node_modules/{name}": {{\s*"version": "([^"]+)"',
        "go": rf"^(?:require)?\s*{name} v(\S+)",
        "maven": rf"<artifactId>{name}</artifactId>\s*<version>([^<]+)<",
    }[kind]
    found = re.search(pattern, text, re.MULTILINE)
    assert found, f"{tool.folder}: {PINNED_BY[kind]} pins no {tool.package}"
    return found[1]
