"""The Spark session of the programs: local, small, and with the stock Kafka connector on its class path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jars import connector_jars, iceberg_jars
from pyspark.sql import SparkSession

#: For a laptop. More shuffle partitions than cores only cost time here, and each is a state store in a stream.
CORES, MEMORY, SHUFFLE_PARTITIONS = 2, "1g", 2
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").resolve()


#: The catalog's name: PyIceberg writes it into the file, so Spark has the same.
CATALOG = "odradek"
#: Set by spark-submit, which has the jars, the master and the memory in its own options.
_IS_SUBMITTED = "PYSPARK_GATEWAY_PORT" in os.environ
#: The address of a Spark Connect server, which has those, too: sc://host:port.
REMOTE = "SPARK_REMOTE"
#: Settings of a server alone: a session cannot change them.
_OF_SERVERS = ("spark.ui.", "spark.sql.extensions")


def spark_session(app: str, warehouse: Path | None = None) -> SparkSession:
    """Returns a local session, that of spark-submit, or one of the Spark Connect server that SPARK_REMOTE names; the last
    two keep their settings.

    `warehouse`: the folder of `odradek archive --warehouse`, as the catalog CATALOG of Spark SQL.
    """
    is_remote = os.environ.get(REMOTE, "").startswith("sc://")
    settings = {
        "spark.sql.session.timeZone": "UTC",  # minutes, dates and timestamp options have the same meaning everywhere
        "spark.ui.showConsoleProgress": "false",
    }
    if not _IS_SUBMITTED and not is_remote:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= _local()
    if warehouse is not None:
        settings |= catalog_settings(warehouse)
    builder = SparkSession.builder.appName(app)
    for key, value in settings.items():
        if not is_remote or not key.startswith(_OF_SERVERS):
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    if _IS_SUBMITTED:
        session.sparkContext.setLogLevel("ERROR")
    return session


def catalog_settings(warehouse: Path) -> dict[str, str]:
    """The catalog of SQLite that `odradek archive` makes in a folder. Others have their type and uri in these places."""
    name = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.type": "jdbc",
        f"{name}.uri": f"jdbc:sqlite:{warehouse.absolute()}/catalog.db",
        f"{name}.warehouse": warehouse.absolute().as_uri(),
    }


def _local() -> dict[str, str]:
    return {
        "spark.master": f"local[{CORES}]",
        "spark.jars": ",".join(map(str, [*connector_jars(), *iceberg_jars()])),
        # From the first line of the JVM on; setLogLevel would come after a dozen warnings.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        "spark.driver.memory": MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.ui.enabled": "false",
    }
