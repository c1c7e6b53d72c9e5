"""A broker that is killed at any point: every rejected record is in the dead letter queue (KIP-1191)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually, make_topic
from tests.server.harness.dead_letter_queue import REJECTED, dead_letter_records, upgrade
from tests.server.harness.share_broker import share_broker
from tests.server.harness.share_groups import configure, lag, produce
from tests.server.harness.share_member import ACCEPT, REJECT, Member

pytestmark = pytest.mark.usefixtures("processes")

GROUP = "buried"
QUEUE = "dlq.dead_lettered"
ROUNDS = 4
RECORDS = 20
SETTINGS = {"errors.deadletterqueue.auto.create.topics.enable": "true"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OdradekProcess]:
    with share_broker(tmp_path, SETTINGS) as process:
        yield process


class Onlooker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        #: `said`: offsets whose rejection a member sent. `rejected`: those of them that the broker acknowledged.
        self.said: set[int] = set()
        self.rejected: set[int] = set()
        self.accepted: set[int] = set()

    def work(self, member: Member, *, rejects: bool = True) -> int:
        """Fetches, and acknowledges all acquired records. Returns the number of acquired ranges."""
        taken = member.take(max_records=5, wait_ms=50)
        for first, last, _ in taken:
            kind = self.rng.choice((ACCEPT, REJECT, REJECT)) if rejects else ACCEPT
            self.said.update(range(first, last + 1) if kind == REJECT else ())
            response = member.acknowledge((first, last, kind))
            if response.error_code == 0:
                (self.rejected if kind == REJECT else self.accepted).update(range(first, last + 1))
        return len(taken)

    def reject_and_do_not_listen(self, member: Member) -> None:
        """Sends rejections and reads no response. The kill finds them archiving, in the queue, archived, or not received."""
        for first, last, _ in member.take(max_records=10, wait_ms=50):
            self.said.update(range(first, last + 1))
            member.send_acknowledgement((first, last, REJECT))


@pytest.mark.parametrize("seed", range(1))
def test_rejected_records_reach_queue_despite_kills(seed: int, broker: OdradekProcess) -> None:
    onlooker = Onlooker(random.Random(seed))
    assert upgrade(broker.bootstrap).error_code == 0
    topic_id = make_topic(broker.bootstrap, GROUP)
    copies = {"errors_deadletterqueue_copy_record_enable": "true"}
    configure(broker.bootstrap, GROUP, errors_deadletterqueue_topic_name=QUEUE, **copies)
    for _ in range(ROUNDS):
        produce(broker.bootstrap, GROUP, RECORDS)
        member = Member(broker.bootstrap, GROUP, GROUP, [(topic_id, 0)])
        for _ in range(onlooker.rng.randrange(3)):
            onlooker.work(member)
        onlooker.reject_and_do_not_listen(member)
        broker.kill()
        member.close()
        broker.start()
    last = Member(broker.bootstrap, GROUP, GROUP, [(topic_id, 0)])

    def is_done() -> bool:
        return not onlooker.work(last, rejects=False) and lag(broker.bootstrap, GROUP) == 0

    eventually(is_done, what="the end")
    last.close()

    found = dead_letter_records(broker.bootstrap, QUEUE)
    dead = {dead_letter.offset for dead_letter in found}
    assert onlooker.rejected <= dead, "what the broker said is rejected is in the queue"
    assert dead <= onlooker.said
    assert dead | onlooker.accepted == set(range(ROUNDS * RECORDS)), "no record is lost"
    # `produce` counts from 0 in each round.
    assert all(dead_letter.value == b"%d" % (dead_letter.offset % RECORDS) for dead_letter in found)
    assert {dead_letter.headers["message"] for dead_letter in found} == {REJECTED}
