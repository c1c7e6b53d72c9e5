"""Rules of `BigSpenders` by Spark's `TwsTester`: no JVM, no topic, milliseconds. Needs PySpark 4.2, or its client.

pytest spark_examples/tests/big_spender_rules.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

sys.path.append(str(Path(__file__).resolve().parents[1]))

from big_spenders import BigSpenders

LIMIT = 100


def order(number: int, cents: int) -> Row:
    return Row(order_id=f"o{number}", amount_cents=cents)


def test_customer_is_named_once_with_the_sum_that_passed_the_limit() -> None:
    tester = TwsTester(BigSpenders(LIMIT))
    assert tester.test("ada", [order(1, 60), order(2, 40)]) == []
    assert tester.test("ada", [order(3, 1)]) == [Row(customer_id="ada", amount_cents=101)]
    assert tester.test("ada", [order(4, 500)]) == []
    assert tester.peekValueState("total", "ada") == (601, True)


def test_order_that_is_sent_twice_counts_once() -> None:
    tester = TwsTester(BigSpenders(LIMIT))
    assert tester.test("ada", [order(1, 60), order(1, 60)]) == []
    assert tester.test("ada", [order(1, 60)]) == []
    assert tester.peekValueState("total", "ada") == (60, False)
    assert tester.peekMapState("orders", "ada") == {("o1",): (60,)}


def test_customers_have_states_of_their_own() -> None:
    tester = TwsTester(BigSpenders(LIMIT))
    assert tester.test("ada", [order(1, 60)]) == [] == tester.test("bob", [order(2, 60)])
    tester.updateValueState("total", "bob", (LIMIT, False))
    assert tester.test("bob", [order(3, 1)]) == [Row(customer_id="bob", amount_cents=LIMIT + 1)]
    assert tester.test("ada", [order(4, 1)]) == []
