"""Some examples of the fuzzer of records, schemas and commands (fuzz.py has many by hand)."""

from __future__ import annotations

import pytest

from tests.columns import fuzz
from tests.harness.examples import examples

#: A query is eight commands.
EXAMPLES = {"scan": 40, "archive": 40, "consume": 20, "spark": 20, "query": 5}


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("use", fuzz.USES)
def test_records_of_any_kind_are_rows_or_named_errors(use: str) -> None:
    fuzz.run(examples(EXAMPLES[use]), (use,))
