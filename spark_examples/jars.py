"""Downloads Spark's Kafka connector from Maven Central into .tools/: `python spark_examples/jars.py`.

The connector's release must be that of Spark itself, so it follows the installed `pyspark` (4.0.0 and 3.5.1 are known to
work). With the jars fetched once and listed in `spark.jars`, Spark resolves nothing when a job starts.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

_HERE = Path(__file__).resolve().parent
_POM = _HERE / "connector.pom.xml"
_DEADLINE_S = 600
_TRIES = 3


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
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={home(version)}", "-DincludeScope=runtime"]
    command = [maven, "-q", "-B", "-f", str(_POM), *goal, *versions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)
    for _ in range(_TRIES - 1):  # a registry may be unavailable for a moment
        if done.returncode == 0:
            break
        done = subprocess.run([*command, "-U"], capture_output=True, text=True, timeout=_DEADLINE_S)
    if done.returncode != 0:
        raise JarsMissing(f"Maven could not fetch the connector of Spark {version}:\n{done.stdout}{done.stderr}")
    (home(version) / ".complete").write_text(_fingerprint())


def _fingerprint() -> str:
    return hashlib.sha256(_POM.read_bytes()).hexdigest()


def main() -> int:
    try:
        fetch(*sys.argv[1:2])
    except JarsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
