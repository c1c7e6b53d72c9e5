"""The blocks of docs/tiered-storage.md, pasted in order: with a folder, then with a bucket of an S3 server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import BotoCoreError

from compat_tests.broker_process import free_port
from compat_tests.recipes import eventually
from tests.docs.environments import TITLE, environment, install_block, requirements
from tests.docs.pages import DOCS, blocks
from tests.docs.shells import Shells

PAGE = DOCS / "tiered-storage.md"
_ACCESS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "eu-central-1"}

#: The server has no TLS.
_WITHOUT_TLS = "rsm.config.client.allow_http=true"
#: The lines of the page for a folder.
_FOLDER = "remote.log.storage.manager.class.name=folder\nrsm.config.dir=store\n"
#: Suffixes of the objects of a segment.
PARTS = {"log", "index", "timeindex", "leader_epoch_checkpoint", "snapshot"}


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[tuple[str, object]]:
    """The address of an S3 server with the bucket of the page, and a client of it."""
    address = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    with (tmp_path / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    client = boto3.client("s3", endpoint_url=address, **_ACCESS)

    def is_made() -> bool:
        try:
            client.create_bucket(
                Bucket="my-bucket", CreateBucketConfiguration={"LocationConstraint": _ACCESS["region_name"]}
            )
        except BotoCoreError:
            return False
        return True

    try:
        eventually(is_made, what="the S3 server answers")
        yield address, client
    finally:
        process.terminate()
        process.wait(60)


def paste(shells: Shells, bucket: str = "") -> None:
    """Pastes the blocks in order; `bucket` has the lines of one, in place of those of the folder."""
    printed = ""
    for block in blocks(PAGE):
        if block.language == "sh" and block.title != TITLE:
            printed += shells.run(block._replace(text=block.text.replace(_FOLDER, bucket or _FOLDER)))
    assert "orders" in printed and printed.splitlines()[-3:] == ["1", "2", "3"]


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Shells]:
    install = install_block(PAGE)
    assert install is not None
    made = Shells(tmp_path, environment(*requirements(install)))
    yield made
    made.stop()


def test_blocks_of_the_page_store_segments_in_a_folder(shells: Shells) -> None:
    paste(shells)

    def names() -> set[str]:
        return {path.suffix.removeprefix(".") for path in (shells.folder / "store").rglob("*") if path.is_file()}

    eventually(lambda: names() >= PARTS, what="segments are in the folder", deadline_s=60)


def test_lines_of_the_page_store_segments_in_a_bucket(bucket: tuple[str, object], shells: Shells) -> None:
    address, client = bucket
    shells.environment |= {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": address,
    }
    (lines,) = [block.text for block in blocks(PAGE) if block.language == "properties"]
    paste(shells, f"{lines.rstrip()}\n{_WITHOUT_TLS}\n")

    def names() -> set[str]:
        found = client.list_objects_v2(Bucket="my-bucket")  # type: ignore[attr-defined]
        return {one["Key"].rpartition(".")[2] for one in found.get("Contents", ())}

    eventually(lambda: names() >= PARTS, what="segments are in the bucket", deadline_s=60)
