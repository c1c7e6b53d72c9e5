"""Fixtures of the tests of tiered storage: Apache's classes in a JVM, an S3 server, and segments to copy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.leader_tasks import CopyPlan

from compat_tests.broker_process import free_port
from compat_tests.fixtures import java_tools  # noqa: F401  (pytest finds them by import)
from compat_tests.recipes import eventually
from tests.tiers.harness.tier_oracle import TierOracle
from tests.tiers.harness.tiered_log import TieredLog


@pytest.fixture(scope="session")
def tier_oracle(java_tools: None) -> Iterator[TierOracle]:  # noqa: F811
    """Starts Apache Kafka's classes of tiered storage, in one JVM for all tests."""
    oracle = TierOracle()
    yield oracle
    oracle.close()


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[CopyPlan]:
    """The closed segments of a log with several epochs, and aborted transactions in some segments."""
    folder = tmp_path_factory.mktemp("log")
    tiered = TieredLog(folder / "orders-0", FolderStore({"dir": str(folder / "unused")}))
    tiered.fill(200)
    plans = tiered.plans()
    assert len(plans) > 4
    assert any(plan.segment.txn_index_empty for plan in plans) and not all(
        plan.segment.txn_index_empty for plan in plans
    )
    return plans


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[dict[str, str]]:
    """The configuration of a store in a bucket of an S3 server in another process."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path_factory.mktemp("moto") / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    access = {"access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}
    address = f"http://127.0.0.1:{port}"
    import boto3
    from botocore.exceptions import BotoCoreError

    client = boto3.client(
        "s3", endpoint_url=address, aws_access_key_id="testing", aws_secret_access_key="testing",
        region_name="us-east-1",
    )  # fmt: skip

    def is_made() -> bool:
        try:
            client.create_bucket(Bucket="tiers")
        except BotoCoreError:
            return False
        return True

    try:
        eventually(is_made, what="the S3 server answers")
        store = {f"store.{key}": value for key, value in access.items()}
        yield {"url": "s3://tiers/prod/logs", "store.endpoint": address, "client.allow_http": "true", **store}
    finally:
        process.terminate()
        process.wait(60)
