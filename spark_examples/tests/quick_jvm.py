"""Variables of the environment for JVMs of Spark that start quickly, and the archive of class data that they share.

`python -m spark_examples.tests.quick_jvm` makes the archive (170 MB, a minute of CPU): it runs programs in a session, whose
JVM then writes the classes that it has loaded, parsed and verified. A driver that finds no valid archive starts without it.
It is valid for one class path, and for none with a folder of files: tests give Spark its settings by properties of the JVM,
not by SPARK_CONF_DIR.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compat_tests.java.fetch import PROGRAMS, ToolsMissing
from compat_tests.java.program import content_key, file_identity, jvm_identity

_ROOT = Path(__file__).resolve().parents[2]
_DEADLINE_S = 600
_EVENTS = "5000"
#: Quick compilation suits a short process: it halves the CPU time of a small job. So does vfork for the many processes that
#: Spark starts to set the permissions of files. A driver whose start takes longer than its interval of heartbeats registers
#: its store of blocks twice, and then runs no task: "idWithoutTopologyInfo is null".
_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK "
    "-Dspark.executor.heartbeatInterval=60s"
)
_SILENT = "-Xlog:cds*=off"
#: The classes of an archive are verified. Without one, the verification of Spark's takes a fifth of the start of a session.
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
#: Without Hadoop's native library Spark's default manager of checkpoints starts 75 processes (readlink, chmod) for a small
#: batch; this one starts 17. Spark 4.0 has it in another package.
_VERSION = importlib.metadata.version("pyspark")
_PACKAGE = "org.apache.spark.sql.execution.streaming" + ("" if _VERSION.startswith("4.0.") else ".checkpointing")
_CHECKPOINTS = f"-Dspark.sql.streaming.checkpointFileManagerClass={_PACKAGE}.FileSystemBasedCheckpointFileManager"


def archive() -> Path:
    """Returns the place of the archive for the jars of the installed Spark and this JVM. Raises ToolsMissing."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    jars = sorted((Path(spark.origin).parent / "jars").glob("*.jar"))
    files = (f"{path} {file_identity(path)}" for path in jars)
    return PROGRAMS / f"spark-{_VERSION}-{content_key(jvm_identity(), *files)}.jsa"


def _variables(*options: str) -> dict[str, str]:
    return {"JAVA_TOOL_OPTIONS": _OPTIONS, "SPARK_SUBMIT_OPTS": " ".join(options)}


def _sharing() -> tuple[str, ...]:
    try:
        file = archive()
    except ToolsMissing:
        return _UNVERIFIED
    return (f"-XX:SharedArchiveFile={file}", "-Xshare:auto", _SILENT) if file.exists() else _UNVERIFIED


#: Drivers that are killed have Spark's own manager of checkpoints, as those of users do.
QUICK_JVM = _variables(*_sharing())
#: Sessions with cheap checkpoints.
QUICK_SPARK = _variables(*_sharing(), _CHECKPOINTS)


def make() -> None:
    """Makes the archive; a no-op when it is there. Removes those of earlier jars and JVMs."""
    import odradek

    made = archive()
    if made.exists():
        return
    print(f"making the archive of classes of Spark {_VERSION} ...", flush=True)
    for old in PROGRAMS.glob("spark-*.jsa"):
        old.unlink()
    PROGRAMS.mkdir(exist_ok=True)
    with odradek.Broker() as broker, tempfile.TemporaryDirectory(dir=PROGRAMS) as folder:
        written = Path(folder) / "archive"
        steps = Path(folder) / "steps.json"
        programs = {"generate_orders.py": ("--events", _EVENTS), "revenue_stream.py": ("--available-now",)}
        programs |= {"batch_report.py": (), "backfill.py": ("--table", "backfill.parquet")}
        steps.write_text(json.dumps([["python", f"spark_examples/{name}", *words] for name, words in programs.items()]))
        command = [
            sys.executable,
            str(Path(__file__).with_name("one_session.py")),
            broker.bootstrap_servers,
            str(steps),
        ]
        environment = os.environ | _variables(f"-XX:ArchiveClassesAtExit={written}", _SILENT, _CHECKPOINTS)
        # The JVM outlives the program, and has its pipes.
        done = subprocess.run(
            command, cwd=folder, env=environment | {"PYTHONPATH": str(_ROOT)}, capture_output=True, text=True,
            timeout=_DEADLINE_S, check=False,
        )  # fmt: skip
        if done.returncode != 0 or not written.exists():
            raise RuntimeError(f"no archive of classes of Spark:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        written.replace(made)


if __name__ == "__main__":
    try:
        make()
    except ToolsMissing as missing:
        sys.exit(str(missing))
