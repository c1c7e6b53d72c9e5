"""Rows of relations for a client of Spark Connect: `python relation_session.py BOOTSTRAP CASES.json`.

A case has a topic, the place of its table, and the format of its values. The rows of each way of reading are written as
CASE-WAY.parquet beside the file of cases; the rest is printed as JSON. A process of its own: PySpark has either classic
sessions or those of Spark Connect.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pyarrow.parquet as pq
from odradek.columns import INFER, ValueSchema
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from session import spark_session

from pyspark_odradek import read_relation

#: Bytes of a task, so that small tables and logs have several.
TASK_BYTES = 4_000
_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
_DEADLINE_S = 240
Case = dict[str, Any]


class Session:
    """A client of the server, with the cases of a test."""

    def __init__(self, bootstrap: str, asked: Case) -> None:
        self.spark: SparkSession = spark_session("relation-session")
        self._bootstrap, self._asked = bootstrap, asked

    def options(self, case: Case) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": case["topic"], "splitBytes": str(TASK_BYTES)}
        given |= case["place"] | {f"catalog.{name}": value for name, value in case["catalog"].items()}
        return given | ({"valueFormat": case["values"], "valueSchema": INFER} if case["values"] else {})

    def frames(self, case: Case) -> Iterator[tuple[str, DataFrame]]:
        """The relation of a case, by each way of reading."""
        given = self.options(case)
        yield "format", self.spark.read.format("odradek").options(**given).load()
        words = ", ".join(f"`{name}` '{value}'" for name, value in given.items())
        self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW related USING odradek OPTIONS ({words})")
        yield "sql", self.spark.table("related")
        made = odradek.relation(
            case["topic"], bootstrap_servers=self._bootstrap, catalog=case["catalog"] or None,
            values=ValueSchema(case["values"], INFER) if case["values"] else None, **case["place"],
        )  # fmt: skip
        yield "read_relation", read_relation(self.spark, made, task_bytes=TASK_BYTES)

    def pushed(self) -> list[int]:
        """The rows of a condition with push-down and without."""
        found = []
        for setting in ("true", "false"):
            self.spark.conf.set(_PUSH_DOWN, setting)
            _, frame = next(self.frames(self._asked["cases"]["raw"]))
            found.append(frame.where("partition = 1 AND offset >= 30").count())
        return found

    def added(self) -> dict[str, int]:
        """The rows that each DataFrame, and a new one, has more after a command that archives records."""
        case = self._asked["cases"]["grows"]
        ways = list(self.frames(case))
        before = {way: frame.count() for way, frame in ways}
        subprocess.run(self._asked["more"], check=True, timeout=_DEADLINE_S, stdout=sys.stderr)
        (_, new), *_ = self.frames(case)
        return {way: frame.count() - before[way] for way, frame in ways} | {"new": new.count() - before["format"]}

    def errors(self) -> list[str]:
        return [self._error(odd) for odd in self._asked["odd"]]

    def _error(self, odd: dict[str, str]) -> str:
        given = self.options(self._asked["cases"]["raw"]) | odd
        try:
            self.spark.read.format("odradek").options(**given).load().collect()
        except PySparkException as error:
            return str(error)
        return "no error"


def main(bootstrap: str, file: str) -> None:
    asked = json.loads(Path(file).read_text(encoding="utf-8"))
    session = Session(bootstrap, asked)
    for name, case in asked["cases"].items():
        for way, frame in session.frames(case):
            pq.write_table(frame.toArrow(), Path(file).with_name(f"{name}-{way}.parquet"))
    print(json.dumps({"pushed": session.pushed(), "added": session.added(), "errors": session.errors()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
