"""Downloads Apache Kafka's jars from Maven Central into .tools/: `python -m compat_tests.java.fetch`.

4.3.1 is the oracle (broker, clients, tools), 4.4.0 the specification (see poms/). Kafka Streams is separate, because RocksDB
is large, and so are the test classes of tiered storage and of transactions. Does nothing when all are there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..downloads import download

#: The release of the broker that is the oracle, and of the tools.
ORACLE = "4.3.1"
#: The release whose protocol and files Odradek implements.
SPECIFICATION = "4.4.0"
#: Kafka Streams, used together with the oracle's jars.
STREAMS = f"streams-{ORACLE}"
#: LocalTieredStorage, used together with the oracle's jars.
TIERS = f"tiers-{ORACLE}"
#: Apache's own tests of transactions and JUnit, used together with the oracle's jars and TIERS.
TESTS = f"tests-{ORACLE}"
#: Apache's test kit, used together with TESTS.
TEST_KIT = f"testkit-{ORACLE}"
#: Older brokers, which are sources of mirrors: the last ones of 3.x, and of those that need ZooKeeper and have no ids of
#: topics with an older `inter.broker.protocol.version`.
LAST_OF_3, WITH_ZOOKEEPER = "3.9.1", "2.8.2"
OLDER = (LAST_OF_3, WITH_ZOOKEEPER)
VERSIONS = (ORACLE, SPECIFICATION, STREAMS, TIERS, TESTS, TEST_KIT)

_HERE = Path(__file__).resolve().parent
#: Without links: checkouts that share the folder also share the archives of class data, which are valid for one path.
_TOOLS = (_HERE.parents[1] / ".tools").resolve()
#: Jars and archives of class data that tests make themselves (program.py).
PROGRAMS = _TOOLS / "java"
#: A jar of equal files is equal, with its time: the JVM checks both.
_JAR_TIME_S = 946_684_800
_DEADLINE_S = 900
#: Runs of Maven at the same time.
_AT_ONCE = 2


class ToolsMissing(RuntimeError):
    """Java, Maven or the jars are missing; the text has the remedy."""


def home(version: str) -> Path:
    """Returns the directory for the jars of a version."""
    return _TOOLS / f"kafka-{version}"


def is_complete(version: str) -> bool:
    """Returns whether all jars of the current POM were copied."""
    stamp = home(version) / ".complete"
    return stamp.exists() and stamp.read_text() == _fingerprint(version)


def jars(version: str) -> list[Path]:
    """Returns the jars of a version. Raises ToolsMissing when they were not fetched."""
    if not is_complete(version):
        raise ToolsMissing(f"Apache Kafka {version} is not in {home(version)}: run `python -m compat_tests.java.fetch`")
    return sorted(home(version).glob("*.jar"))


def jar(artifact: str, version: str) -> Path:
    """Returns a jar by its artifact's name: `jar("kafka-clients", "4.4.0")`."""
    return next(path for path in jars(version) if path.name == f"{artifact}-{version}.jar")


def classpath(version: str) -> str:
    """Returns the argument of `java -cp`: the jars, and a logging configuration that prints warnings only, to stderr."""
    jars(version)
    return os.pathsep.join((str(_logging()), str(home(version) / "*")))


def _logging() -> Path:
    """Returns a jar of the logging configuration: JVMs share no class data when a folder is on the class path."""
    folder = _HERE / "logging"
    text = "".join(file.read_text(encoding="utf-8") for file in sorted(folder.iterdir()))
    jar = PROGRAMS / f"logging-{hashlib.sha256(text.encode()).hexdigest()[:16]}.jar"
    if not jar.exists():
        write_jar(jar, folder)
    return jar


def write_jar(jar: Path, folder: Path) -> None:
    """Writes all files of a folder into a jar. Several processes may make it at the same time."""
    jar.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=jar.parent, delete=False) as file, zipfile.ZipFile(file, "w") as made:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                made.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    os.utime(file.name, (_JAR_TIME_S, _JAR_TIME_S))
    Path(file.name).chmod(0o644)
    Path(file.name).replace(jar)


def java() -> str:
    """Returns the path of the `java` command. Raises ToolsMissing."""
    return _command("java", "a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)")


def fetch(version: str) -> None:
    """Copies the jars of a version by Maven; a no-op when they are there."""
    if is_complete(version):
        return
    maven = _command("mvn", "Maven (Debian: apt-get install maven)")
    java()
    shutil.rmtree(home(version), ignore_errors=True)
    command = [
        maven,
        "-q",
        "-B",
        "-f",
        str(_pom(version)),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={home(version)}",
    ]
    print(f"fetching Apache Kafka {version} by Maven ...", flush=True)
    done = download(command, again=("-U",), timeout=_DEADLINE_S)
    if done.returncode != 0:
        raise ToolsMissing(f"Maven could not fetch Apache Kafka {version}:\n{done.stdout}{done.stderr}")
    (home(version) / ".complete").write_text(_fingerprint(version))


def _pom(version: str) -> Path:
    return _HERE / "poms" / f"kafka-{version}.xml"


def _fingerprint(version: str) -> str:
    return hashlib.sha256(_pom(version).read_bytes()).hexdigest()


def _command(name: str, what: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToolsMissing(f"`{name}` is not on the path; the compatibility tests need {what}")
    return found


def main() -> int:
    first, *others = VERSIONS
    try:
        fetch(first)
        # With Maven's plugins and most of the jars there, runs of Maven share nothing that one of them still downloads.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(fetch, (*others, *OLDER)))
    except ToolsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
