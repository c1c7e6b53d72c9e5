"""Downloads Spark's Kafka connector, and Iceberg, from Maven Central into .tools/: `python spark_examples/jars.py`.

The connector's release must be that of Spark itself, so it follows the installed `pyspark` (the tests run 4.1.3; 4.0.0 and
3.5.1 are known to work). With the jars fetched once and listed in `spark.jars`, Spark resolves nothing when a job starts.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyspark

_HERE = Path(__file__).resolve().parent
_POM = _HERE / "connector.pom.xml"
_DEADLINE_S = 600
_TRIES = 3
#: Maven's words for an artifact that the repository does not have, and those before each line of an error.
_IS_ABSENT, _ERROR = "Could not find artifact", "[ERROR]"
#: Maven resets the colours of a terminal, even without a terminal.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_RELEASES = "https://repo.maven.apache.org/maven2/org/apache/spark/spark-sql-kafka-0-10_{}/maven-metadata.xml"
_LOOK_UP_S = 20
_FIRST_RELEASE = (3, 5, 0)
#: Releases of Spark whose token provider the repository may lack, and the one of the same series that takes its place. It
#: has the logins by delegation tokens, and the check of Kafka's properties.
_TOKEN_PROVIDERS = {"4.1.2": "4.1.1", "4.1.3": "4.1.1"}
#: Folder of the jars with which Spark SQL reads and writes Iceberg tables, and their releases by that of Spark.
_ICEBERG = "iceberg"
_ICEBERG_RELEASES = {"3.5": "1.10.0", "4.0": "1.11.0", "4.1": "1.12.0"}
#: The catalog of `odradek archive --warehouse` is a file of SQLite.
_SQLITE = "org.xerial:sqlite-jdbc:3.54.1.0"


class JarsMissing(RuntimeError):
    """Maven or the jars are missing; the text has the remedy."""


def home(version: str = pyspark.__version__) -> Path:
    """Returns the directory for the connector of a release of Spark."""
    return _HERE.parent / ".tools" / f"spark-{version}"


def scala(version: str) -> str:
    """Returns the Scala version of PySpark's own jars of that release."""
    return "2.13" if int(version.split(".")[0]) >= 4 else "2.12"


def is_complete(version: str = pyspark.__version__) -> bool:
    stamp = home(version) / ".complete"
    return stamp.exists() and stamp.read_text() == _fingerprint()


def connector_jars(version: str = pyspark.__version__) -> list[Path]:
    """Returns the connector and its dependencies beyond Spark's own jars. Raises JarsMissing when they were not fetched."""
    if not is_complete(version):
        raise JarsMissing(f"the Kafka connector is not in {home(version)}: run `python spark_examples/jars.py`")
    return sorted(home(version).glob("*.jar"))


def iceberg_jars(version: str = pyspark.__version__) -> list[Path]:
    """Returns Iceberg's runtime and the driver of SQLite. Raises JarsMissing where this release of Spark has none."""
    connector_jars(version)
    return sorted((home(version) / _ICEBERG).glob("*.jar"))


def fetch(version: str = pyspark.__version__) -> None:
    """Copies the jars by Maven; a no-op when they are there."""
    if is_complete(version):
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing("`mvn` is not on the path; Spark's connector comes by Maven (Debian: apt-get install maven)")
    shutil.rmtree(home(version), ignore_errors=True)
    print(f"fetching the Kafka connector of Spark {version} by Maven ...", flush=True)
    versions = [f"-Dspark.version={version}", f"-Dscala.version={scala(version)}"]
    versions.append(f"-Dtoken.provider.version={_TOKEN_PROVIDERS.get(version, version)}")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={home(version)}", "-DincludeScope=runtime"]
    command = [maven, "-q", "-B", "-f", str(_POM), *goal, *versions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    for _ in range(_TRIES - 1):  # a registry may be unavailable for a moment
        if done.returncode == 0 or _IS_ABSENT in done.stdout + done.stderr:
            break
        done = subprocess.run([*command, "-U"], capture_output=True, text=True, timeout=_DEADLINE_S)
    if done.returncode != 0:
        raise JarsMissing(_explained(version, (done.stdout + done.stderr).strip() or f"status {done.returncode}"))
    if (iceberg := _ICEBERG_RELEASES.get(".".join(version.split(".")[:2]))) is None:
        print(f"without Iceberg: it has runtimes for Spark {', '.join(_ICEBERG_RELEASES)}, not for {version}")
    else:
        _fetch_iceberg(maven, version, iceberg)
    (home(version) / ".complete").write_text(_fingerprint())


def _fetch_iceberg(maven: str, version: str, iceberg: str) -> None:
    series = ".".join(version.split(".")[:2])
    for artifact in (f"org.apache.iceberg:iceberg-spark-runtime-{series}_{scala(version)}:{iceberg}", _SQLITE):
        words = [
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={home(version) / _ICEBERG}",
        ]
        for _ in range(_TRIES):
            done = subprocess.run([maven, *words], capture_output=True, text=True, timeout=_DEADLINE_S)
            if done.returncode == 0:
                break
        else:
            raise JarsMissing(f"Maven could not fetch {artifact}: {done.stdout.strip()[:300]}")


def _explained(version: str, output: str) -> str:
    """Returns the reason of a failure of Maven, without its trace."""
    output = _COLOURS.sub("", output)
    if _IS_ABSENT not in output:
        errors = (line.removeprefix(_ERROR).strip() for line in output.splitlines() if line.startswith(_ERROR))
        return f"Maven could not fetch the connector of Spark {version}: {next(filter(None, errors), output)}"
    found = f"there is no Kafka connector for Spark {version} in Maven's repository"
    if releases := releases_of(scala(version)):
        wanted = [int(one) for one in re.findall(r"\d+", version)]
        nearest = next((one for one in releases if [*map(int, one.split("."))] < wanted), releases[-1])
        found += f"; it has {', '.join(releases)}. Install one of these: pip install 'pyspark=={nearest}'"
    return found


def releases_of(scala_version: str) -> list[str]:
    """Returns the releases of the connector in Maven Central, the newest first; none where it cannot be reached."""
    try:
        with urllib.request.urlopen(_RELEASES.format(scala_version), timeout=_LOOK_UP_S) as response:
            return releases_in(response.read().decode())
    except (OSError, ValueError):
        return []


def releases_in(metadata: str) -> list[str]:
    """Returns the releases in a maven-metadata.xml from 3.5 on, without previews."""
    found = [tuple(map(int, one)) for one in re.findall(r"<version>(\d+)\.(\d+)\.(\d+)</version>", metadata)]
    return [".".join(map(str, one)) for one in sorted(found, reverse=True) if one >= _FIRST_RELEASE]


def _fingerprint() -> str:
    return hashlib.sha256(_POM.read_bytes() + repr((_TOKEN_PROVIDERS, _ICEBERG_RELEASES, _SQLITE)).encode()).hexdigest()


def main() -> int:
    try:
        fetch(*sys.argv[1:2])
    except JarsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
