"""jars.py: the connector for Spark's own release, without the jars that Spark includes."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
from jars import connector_jars, scala


def artifact(jar: Path) -> str:
    return re.sub(r"-\d[\w.]*(-\d+)?\.jar$", "", jar.name)


def test_spark_gets_the_connector_and_the_three_jars_that_it_needs() -> None:
    built_for = scala(pyspark.__version__)
    assert {artifact(jar) for jar in connector_jars()} == {
        f"spark-sql-kafka-0-10_{built_for}",
        f"spark-token-provider-kafka-0-10_{built_for}",
        "kafka-clients",
        "commons-pool2",
    }
    assert any(pyspark.__version__ in jar.name for jar in connector_jars())


def test_no_jar_is_brought_a_second_time() -> None:
    shipped = {artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    assert shipped
    assert not shipped & {artifact(jar) for jar in connector_jars()}
