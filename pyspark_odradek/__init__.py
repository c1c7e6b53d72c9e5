"""The name by which Spark finds `format("odradek")`: it imports every module whose name begins with `pyspark_`."""

from odradek.spark.source import OdradekSource as DefaultSource

__all__ = ["DefaultSource"]
