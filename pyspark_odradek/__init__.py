"""The name by which Spark finds `format("odradek")`: it imports every module whose name begins with `pyspark_`.

`read` has the same records as a DataFrame, for less CPU.
"""

from odradek.spark.source import OdradekSource as DefaultSource
from odradek.spark.source import read

__all__ = ["DefaultSource", "read"]
