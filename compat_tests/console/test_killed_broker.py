"""Every page and every action of the console in Chromium after one of three brokers is killed, and after its return.
Then every page while a broker hangs.

The broker is the active controller; it led partitions and coordinated a group and a transaction that the pages show. One
cluster serves all tests, which run in the order of this file: an action may end what a page before it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.admin.connection import Connection
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.settings import Settings
from starlette.routing import Mount

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.every_action import ACTIONS
from compat_tests.console.filled_cluster import RECORDS, FilledCluster, filled_cluster
from compat_tests.console.harness.hanging_transaction import PRODUCER, TOPIC
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.stopwatch import Stopwatch
from compat_tests.streams.application import GROUP as STREAMS_GROUP

#: A page answers within it at any time after the kill. A search of records takes up to 4 s while a partition has no leader.
#: What other programs take of the machine does not count, here and below.
PAGE_S = 6.0
#: A change is done within it after its button is pressed, or answered with the reason.
ACTION_S = 15.0
_USER, _PASSWORD = "alice", "correct horse"

Case = tuple[str, tuple[str, ...]]
#: Route -> an address, and words of the page once the controller has fenced the broker. Names in braces are of the cluster.
PAGES: dict[str, Case] = {
    "/": ("/", ("2 running, 1 fenced", "Active controller", "Without leader\n1")),
    "/topics": ("/topics?short=yes", ("orders", "ledger", "1 without leader")),
    "/topics/{topic}": ("/topics/orders", ("Write a record",)),
    "/topics/{topic}/partitions": ("/topics/orders/partitions", (f"Offsets in these partitions\n{RECORDS}",)),
    "/topics/{topic}/groups": ("/topics/orders/groups", ("Groups that read it",)),
    "/topics/{topic}/configuration": ("/topics/orders/configuration", ("retention.ms",)),
    "/topics/{topic}/access": ("/topics/orders/access", ("No rule names this topic",)),
    "/topics/{topic}/messages": (
        "/topics/orders/messages?from=beginning&limit=500",
        (f"{RECORDS} shown of {RECORDS} read", "the end of the log"),
    ),
    "/topics/{topic}/messages/{partition}/{offset}": (
        "/topics/orders/messages/{orders_partition}/5",
        ("Copy command", "Neighbours"),
    ),
    "/groups": ("/groups", ("{group}", STREAMS_GROUP, "sharers")),
    "/groups/{group}": ("/groups/{group}", ("Committed", "Coordinator")),
    "/groups/{group}/reset": ("/groups/{group}/reset?to=beginning", ("Nothing has changed yet", "orders")),
    "/transactions": ("/transactions", ("Ongoing", "{transaction}", "ledger-0 ledger-1 ledger-2")),
    "/transactions/hanging": (f"/transactions/hanging?topic={TOPIC}", (str(PRODUCER), "hangs")),
    "/brokers": ("/brokers", ("fenced", "running")),
    "/brokers/balance": ("/brokers/balance", ("3 replicas, and only 2 brokers",)),
    "/brokers/{broker}": ("/brokers/{victim}", ("fenced", "Broker {victim} does not respond")),
    "/quorum": ("/quorum", ("leader", "Replicas", "metadata.version")),
    "/share": ("/share", ("sharers", "dlq.work")),
    "/share/{topic}": ("/share/dlq.work", ("work-0 at 0", '"job": "broken"')),
    "/access": ("/access", ("No ACLs.", "No users with SCRAM credentials.", "No quotas.")),
    "/clients": ("/clients", ("Members of groups", STREAMS_GROUP)),
    "/pipelines": ("/pipelines", ("Mirrors", "Tiered topics", "Archives")),
}
#: Further addresses of these routes.
MORE_PAGES: dict[str, Case] = {
    "all topics": ("/topics", ("doomed", "work")),
    "a topic without a leader": ("/topics/alone/partitions", ("none", "Partitions")),
    "records without a leader": ("/topics/alone/messages", ("alone-{alone_partition} has no leader",)),
    "a tail": ("/topics/orders/messages?tail=new", ("New records appear",)),
    "a streams group": (f"/groups/{STREAMS_GROUP}", ("subtopology 0",)),
    "a share group": ("/groups/sharers", ("Start offsets", "work")),
    "all open transactions": ("/transactions/hanging", (str(PRODUCER),)),
    "a broker that runs": ("/brokers/{survivor}", ("Log directories", "Largest replicas")),
}
CASES = PAGES | MORE_PAGES
#: Routes that ask the cluster nothing.
OF_THE_CONSOLE = {
    ("GET", "/login"),
    ("POST", "/login"),
    ("POST", "/logout"),
    ("GET", "/health"),
    ("GET", "/history"),
    ("GET", "/static"),
}
#: Routes of a schema registry and of Kafka Connect, which no broker serves, of moves between brokers: with two of three
#: brokers there is no plan for three replicas; and of a pipeline, of which this cluster has none
#: (tests/console/test_pipelines.py).
BESIDE = {
    ("GET", "/pipelines/{kind}/{name}"),
    ("GET", "/schemas"),
    ("GET", "/schemas/{subject}"),
    ("POST", "/schemas"),
    ("POST", "/schemas/{subject}/compatibility"),
    ("GET", "/connect"),
    ("GET", "/connect/{connector}"),
    ("POST", "/connect/{connector}/{word}"),
    ("POST", "/brokers/balance"),
    ("POST", "/brokers/balance/cancel"),
}
_ERRORS = ("That did not work", "There is no such page", "The cluster could not be read", "Internal Server Error")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledCluster]:
    with filled_cluster(tmp_path_factory.mktemp("killed") / "three") as made:
        yield made


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("users") / "users"
    words = ("console", "--users", str(file), "--add-user", _USER)
    assert odradek_command(*words, stdin=f"{_PASSWORD}\n").status == 0
    return file


@pytest.fixture(scope="module")
def console_of_killed(cluster: FilledCluster, users: Path) -> Iterator[ConsoleProcess]:
    """The console in front of all three brokers."""
    made = ConsoleProcess(cluster.victim_first(), users.parent, "--users", str(users))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def killed(cluster: FilledCluster, console_of_killed: ConsoleProcess, driver: Any) -> Browser:
    """A viewer who has the overview open when the broker is killed."""
    browser = Browser(driver, console_of_killed.address)
    browser.size(1200, 900)
    browser.scheme("light")
    browser.errors()  # discards those of earlier tests
    log_in(browser)
    browser.await_text("3 running, 0 fenced")
    browser.await_true(lambda: "Under-replicated\n0" in browser.text)
    cluster.kill(cluster.victim)
    return browser


def log_in(browser: Browser) -> None:
    browser.open("/login")
    browser.find("#name").send_keys(_USER)
    browser.find("#password").send_keys(_PASSWORD)
    browser.find("main button").click()
    browser.await_text(f"Log out {_USER}")


def opened(browser: Browser, path: str) -> float:
    """Opens a page, which is no error. Returns the seconds that it took."""
    watch = Stopwatch()
    browser.open(path)
    took = watch.seconds
    status = browser.driver.execute_script("return performance.getEntriesByType('navigation')[0].responseStatus")
    assert status == 200 and not [one for one in _ERRORS if one in browser.text], (path, status, browser.text)
    assert browser.errors() == [], path
    return took


# ---- truths that words alone do not show


def rows(browser: Browser, within: str = "#live") -> list[list[str]]:
    """Cells of the live tables; a drawing's text stands for it."""
    script = (
        "return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
        ".map(row => [...row.cells].map(one => one.innerText))"
    )
    found: list[list[str]] = browser.driver.execute_script(script, within)
    return found


def counts_what_is_under_replicated(cluster: FilledCluster, browser: Browser) -> bool:
    return f"Under-replicated\n{cluster.under_replicated()}" in browser.text and cluster.under_replicated() > 0


def shows_moved_leaders(cluster: FilledCluster, browser: Browser) -> bool:
    found = rows(browser, "#partitions")
    leaders = [row[1].partition(",")[0] for row in found]
    isr = [row[4].split(", ") for row in found]
    seen = [str(one.leader) for _, one in sorted(cluster.partitions("orders").items())]
    return leaders == seen and str(cluster.victim) not in leaders and all(len(one) == 2 for one in isr)


def shows_a_running_coordinator(cluster: FilledCluster, browser: Browser) -> bool:
    return f"broker {cluster.victim}" not in browser.text


def shows_transaction_at_a_running_coordinator(cluster: FilledCluster, browser: Browser) -> bool:
    (row,) = [row for row in rows(browser) if row[0] == cluster.transaction]
    return row[2] == "Ongoing" and row[3] != str(cluster.victim)


def marks_the_broker(cluster: FilledCluster, browser: Browser) -> bool:
    states = {row[0]: (row[3], row[5]) for row in rows(browser)}
    fenced, leads = states.pop(str(cluster.victim))
    return (fenced, leads) == ("fenced", "0") and {state for state, _ in states.values()} == {"running"}


def shows_another_controller(cluster: FilledCluster, browser: Browser) -> bool:
    return (
        str(cluster.victim) not in [row[0] for row in rows(browser) if row[1] == "leader"] and len(rows(browser)) == 3
    )


def always(cluster: FilledCluster, browser: Browser) -> bool:
    return True


TRUTHS: dict[str, Callable[[FilledCluster, Browser], bool]] = {
    "/": counts_what_is_under_replicated,
    "/topics/{topic}/partitions": shows_moved_leaders,
    "/groups/{group}": shows_a_running_coordinator,
    "/transactions": shows_transaction_at_a_running_coordinator,
    "/brokers": marks_the_broker,
    "/quorum": shows_another_controller,
}


# ---- the tests, in their order


def test_every_page_and_action_of_the_application_has_a_case(users: Path) -> None:
    found = set()
    for route in application(Backend(Connection({}), Settings(users=users))).routes:
        methods = {"GET"} if isinstance(route, Mount) else set(route.methods or ()) - {"HEAD"}  # type: ignore[attr-defined]
        found |= {(method, route.path) for method in methods}  # type: ignore[attr-defined]
    assert found == {("GET", path) for path in PAGES} | {("POST", path) for path in ACTIONS} | OF_THE_CONSOLE | BESIDE


@pytest.mark.parametrize("case", CASES)
def test_page_answers_and_shows_the_cluster_without_the_broker(
    cluster: FilledCluster, killed: Browser, case: str
) -> None:
    path, words = CASES[case][0].format(**vars(cluster)), [text.format(**vars(cluster)) for text in CASES[case][1]]

    def is_shown() -> bool:
        assert opened(killed, path) < PAGE_S
        return all(text in killed.text for text in words) and TRUTHS.get(case, always)(cluster, killed)

    killed.await_true(is_shown)
    if case in TRUTHS:
        assert killed.violations() == []


@pytest.mark.parametrize("route", ACTIONS)
def test_action_does_its_work_without_the_broker(cluster: FilledCluster, killed: Browser, route: str) -> None:
    killed.responses_s.clear()
    ACTIONS[route](cluster, killed)
    assert killed.responses_s and max(killed.responses_s) < ACTION_S
    assert killed.errors() == []


def test_login_needs_no_broker(killed: Browser) -> None:
    killed.find("header form button").click()
    killed.await_true(lambda: killed.path == "/login")
    log_in(killed)
    assert Visitor(killed.address).get("/health") == "ok\n"


def test_pages_show_the_return_of_the_broker(cluster: FilledCluster, killed: Browser) -> None:
    killed.open("/")
    killed.await_text("2 running, 1 fenced")
    cluster.restart()
    killed.await_text("3 running, 0 fenced")
    killed.await_true(lambda: "Under-replicated\n0" in killed.text and "Without leader\n0" in killed.text)
    opened(killed, "/brokers")
    killed.await_true(lambda: {row[3] for row in rows(killed)} == {"running"})
    opened(killed, f"/brokers/{cluster.victim}")
    killed.await_text("Log directories")
    opened(killed, "/topics/orders/partitions")
    killed.await_true(lambda: [len(row[4].split(", ")) for row in rows(killed, "#partitions")] == [3] * 4)
    opened(killed, "/topics/alone/messages")
    killed.await_text("the first record of the range")
    opened(killed, "/quorum")
    killed.await_true(lambda: str(cluster.victim) in [row[0] for row in rows(killed)])


def test_pages_answer_while_a_broker_hangs(cluster: FilledCluster, killed: Browser) -> None:
    """Once the console has noticed; a page before that may wait for the broker's response, for 10 s at most."""
    opened(killed, "/")
    with cluster.stopped(cluster.coordinator()):
        killed.await_true(lambda: "1 without a response" in killed.text or "1 fenced" in killed.text)
        took = {case: opened(killed, path.format(**vars(cluster))) for case, (path, _) in CASES.items()}
        assert [case for case, seconds in took.items() if seconds > PAGE_S] == [], took
    opened(killed, "/")
    killed.await_text("3 running, 0 fenced")
    killed.await_true(lambda: "Under-replicated\n0" in killed.text and "Without leader\n0" in killed.text)


def test_pages_answer_while_the_controller_waits_for_a_dead_broker(cluster: FilledCluster, killed: Browser) -> None:
    """The broker has died and is not fenced: it stays the leader of partitions, and the coordinator of a group."""
    dead = cluster.coordinator()
    with cluster.killed_behind_a_proxy(dead):
        assert opened(killed, f"/groups/{cluster.group}") < PAGE_S
        assert f"broker {dead}, which coordinates group {cluster.group}, does not respond" in killed.text
        assert opened(killed, f"/brokers/{dead}") < PAGE_S
        assert "no response" in killed.text
        assert opened(killed, "/") < PAGE_S
        killed.await_text("2 running, 0 fenced, 1 without a response")
        took = {case: opened(killed, path.format(**vars(cluster))) for case, (path, _) in CASES.items()}
        assert [case for case, seconds in took.items() if seconds > PAGE_S] == [], took
        opened(killed, "/")
        killed.await_text("2 running, 1 fenced")
        opened(killed, f"/groups/{cluster.group}")
        killed.await_text("Committed")
