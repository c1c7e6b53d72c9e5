"""`python -m compat_tests.sent_again [--kind odradek|apache] [--fate killed|led-by-another] [--without-rejection|--new]`"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from .cluster import APACHE, ODRADEK, GatedCluster
from .scenario import KILLED, LED_BY_ANOTHER, PROPERTIES, execute, execute_new, reported, reported_of_new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=(ODRADEK, APACHE), default=ODRADEK)
    parser.add_argument("--fate", choices=(KILLED, LED_BY_ANOTHER), default=KILLED)
    parser.add_argument("--without-rejection", action="store_true")
    parser.add_argument("--new", action="store_true", help="a producer that the partition has never heard of")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        GatedCluster(chosen.kind, Path(directory), PROPERTIES[chosen.fate]) as cluster,
    ):
        if chosen.new:
            print(reported_of_new(execute_new(cluster)))
        else:
            print(reported(execute(cluster, chosen.fate, with_rejection=not chosen.without_rejection)))


if __name__ == "__main__":
    main()
