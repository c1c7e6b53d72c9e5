"""Registrations of a broker at the controller: what its previous incarnation led, and how the records are written."""

from __future__ import annotations

import random

import pytest
from odradek.metadata.features import supported_features
from odradek.protocol.internal.cluster_metadata import RegisterBrokerRecord
from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.registrations import RegisteredFeature, RegisteredListener
from odradek.replication.controller.result import ControllerResult

from tests.replication.controller_transcript import CLUSTER_ID, Transcript, directory_id

ONE_BROKER = """> broker 1
> CreateTopics topics="[{'name':'a','num_partitions':3,'replication_factor':1}]"
"""


def registered(transcript: Transcript, directories: tuple[str, ...] = ("d1",)) -> ControllerResult:
    """Returns the decision about a new incarnation of broker 1 that stopped cleanly."""
    controller = transcript.controller
    before = controller.image.broker(1)
    assert before is not None
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=CLUSTER_ID,
        incarnation_id=random.Random(9).randbytes(16),
        listeners=[RegisteredListener("PLAINTEXT", "b1", 9092, 0)],
        features=[RegisteredFeature(name, low, high) for name, (low, high) in supported_features().items()],
        log_dirs=[directory_id(name) for name in directories],
        previous_broker_epoch=before.epoch,
    )
    return controller.handle(request, 4)


@pytest.mark.parametrize(
    ("alone", "commands", "directories", "changed"),
    [
        (True, "", ("d1",), 0),
        (False, "", ("d1",), 3),
        # The session has ended: other nodes have seen the broker without leadership.
        (True, "> fence 1\n", ("d1",), 0),
        (True, "> broker 2\n", ("d1",), 3),
        # A disk is missing, or is another one.
        (True, "", ("d2",), 3),
    ],
    ids=["alone", "with others by configuration", "fenced", "with others", "other directory"],
)
def test_only_broker_leads_on_after_its_restart(
    alone: bool, commands: str, directories: tuple[str, ...], changed: int
) -> None:
    transcript = Transcript()
    transcript.run(ONE_BROKER + commands)
    transcript.controller.registers_alone(alone)
    result = registered(transcript, directories)
    assert len(result.records) == changed + 1
    assert isinstance(result.records[-1], RegisterBrokerRecord)


def test_registration_may_be_written_in_several_batches() -> None:
    """The number of its records has no limit: a broker may lead more partitions than fit in one batch."""
    transcript = Transcript()
    transcript.run(ONE_BROKER)
    assert not registered(transcript).atomic
