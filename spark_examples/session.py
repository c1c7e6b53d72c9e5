"""The Spark session of the programs: local, small, and with the stock Kafka connector on its class path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jars import connector_jars
from pyspark.sql import SparkSession

#: For a laptop. More shuffle partitions than cores only cost time here, and each is a state store in a stream.
CORES, MEMORY, SHUFFLE_PARTITIONS = 2, "1g", 2
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").resolve()


def spark_session(app: str) -> SparkSession:
    """Returns a local session. On a cluster, `spark-submit --jars` takes the same jars."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.jars": ",".join(str(jar) for jar in connector_jars()),
        # From the first line of the JVM on; setLogLevel would come after a dozen warnings.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        "spark.driver.memory": MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",  # minutes, dates and timestamp options have the same meaning everywhere
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName(app).master(f"local[{CORES}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
