"""The Spark session that the programs share: local, small, and with the stock Kafka connector on its class path."""

from __future__ import annotations

import os
import sys

from jars import connector_jars
from pyspark.sql import SparkSession

#: A laptop's worth. More partitions in a shuffle than cores only cost time here, and in a stream each is a state store.
CORES, MEMORY, SHUFFLE_PARTITIONS = 2, "1g", 2


def spark_session(app: str) -> SparkSession:
    """A session on this machine. The same jars go to a cluster by `spark-submit --jars`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.jars": ",".join(str(jar) for jar in connector_jars()),
        "spark.driver.memory": MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",  # a minute, a date and a timestamp option mean the same everywhere
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName(app).master(f"local[{CORES}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
