"""The PySpark recipe of docs/testing-frameworks.md, in the session of these tests."""

from __future__ import annotations

from typing import Any

import odradek
from pyspark.sql import SparkSession

from tests.testing.frameworks import text_of


def test_recipe_runs(odradek_broker: odradek.Broker, spark: SparkSession) -> None:
    names: dict[str, Any] = {}
    exec(text_of("test_pyspark.py"), names)
    names["test_totals_follow_the_orders"](odradek_broker, spark)
