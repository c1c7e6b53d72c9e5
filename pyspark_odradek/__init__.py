"""The name by which Spark finds `format("odradek")`: it imports every module whose name begins with `pyspark_`.

`read` has the same records as a DataFrame, for less CPU. `read_relation` has a topic's table and its log as one.
"""

from odradek.spark.relation import read_relation
from odradek.spark.source import OdradekSource as DefaultSource
from odradek.spark.source import read

__all__ = ["DefaultSource", "read", "read_relation"]
