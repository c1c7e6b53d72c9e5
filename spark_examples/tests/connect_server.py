"""A Spark Connect server as a user starts it: spark-submit, with the jars of the programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
from jars import connector_jars, iceberg_jars

from compat_tests.broker_process import free_port
from spark_examples.tests.programs import EXAMPLES
from spark_examples.tests.quick_jvm import QUICK_SPARK
from tests.docs.pages import ROOT

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_DEADLINE_S = 240


class ConnectServer:
    """Starts at `with`, and ends with its JVM and Python workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._log = folder / "connect-server.log"

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    def _command(self) -> list[str]:
        jars = ",".join(map(str, [*connector_jars(), *iceberg_jars()]))
        settings = {
            "spark.connect.grpc.binding.port": self._port,
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        }
        given = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        submit = shutil.which("spark-submit", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert submit is not None
        return [submit, "--class", _CLASS, "--master", "local[2]", "--jars", jars, *given, "spark-internal"]

    def __enter__(self) -> ConnectServer:
        # The modules of the programs, and where Spark finds `pyspark_odradek` (see conftest.py).
        python = {"PYTHONPATH": f"{ROOT}:{EXAMPLES}", "PYSPARK_PYTHON": sys.executable}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(), cwd=self._folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True, env={**os.environ, **QUICK_SPARK, **python},
            )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        """Waits until the server responds to gRPC."""
        deadline = time.monotonic() + _DEADLINE_S
        with grpc.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            ready = grpc.channel_ready_future(channel)
            while True:
                try:
                    ready.result(timeout=1)
                    return
                except grpc.FutureTimeoutError:
                    assert self._process.poll() is None and time.monotonic() < deadline, self.last_words()

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-8000:]
