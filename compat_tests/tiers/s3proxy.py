"""`python -m compat_tests.tiers.s3proxy`: runs the stores' tests, and a broker, with the S3 server S3Proxy over a folder.

S3Proxy comes from Maven Central to .tools/s3proxy (57 MB). `make test` does without.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from botocore.client import BaseClient
from botocore.exceptions import BotoCoreError
from odradek.tiers.named_store import make_store
from odradek.tiers.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from odradek.tiers.store import RemoteStorageError

from compat_tests.broker_process import free_port
from compat_tests.cli.commands import odradek_command
from compat_tests.downloads import download
from compat_tests.needed_tools import needed
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually

from . import tiered

ROOT = Path(__file__).resolve().parents[2]
_HOME = ROOT / ".tools" / "s3proxy"
_POM = Path(__file__).parent / "s3proxy.xml"
#: The environment variable that has the configuration of a store as JSON.
CONFIG = "ODRADEK_TEST_S3PROXY"
_BUCKET, _REGION, _ID, _KEY = "tiers", "us-east-1", "odradek", "not-a-secret"
_COUNT = 6000
_START_S = 60
#: S3Proxy logs each request by default.
_LOGGING = """<configuration>
  <appender name="ERR" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="ERR"/></root>
</configuration>
"""


def install() -> None:
    pom = _POM.read_text()
    stamp = _HOME / ".complete"
    if stamp.exists() and stamp.read_text() == pom:
        return
    shutil.rmtree(_HOME, ignore_errors=True)
    words = ["-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={_HOME}"]
    done = download([needed("mvn"), *words], again=("-U",), timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    stamp.write_text(pom)


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Runs S3Proxy over a folder. The value is the configuration of a store in a bucket of it."""
    address = f"http://127.0.0.1:{free_port()}"
    (folder / "objects").mkdir()
    settings = {
        "s3proxy.endpoint": address, "s3proxy.authorization": "aws-v2-or-v4", "s3proxy.identity": _ID,
        "s3proxy.credential": _KEY, "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "objects"),
    }  # fmt: skip
    (folder / "s3proxy.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    (folder / "logback.xml").write_text(_LOGGING)
    logging = f"-Dlogback.configurationFile={folder / 'logback.xml'}"
    command = [needed("java"), "-Xmx256m", logging, "-cp", str(_HOME / "*"), "org.gaul.s3proxy.Main"]
    process = subprocess.Popen([*command, "--properties", str(folder / "s3proxy.conf")])
    try:
        client = boto3.client(
            "s3", endpoint_url=address, aws_access_key_id=_ID, aws_secret_access_key=_KEY, region_name=_REGION
        )
        eventually(lambda: _makes_bucket(client, process), what="S3Proxy has the bucket", deadline_s=_START_S)
        yield {
            "url": f"s3://{_BUCKET}/prod/logs", "client.allow_http": "true", "store.endpoint": address,
            "store.access_key_id": _ID, "store.secret_access_key": _KEY, "store.region": _REGION,
        }  # fmt: skip
    finally:
        process.terminate()
        process.wait(60)


def _makes_bucket(client: BaseClient, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "S3Proxy has ended"
    try:
        client.create_bucket(Bucket=_BUCKET)
    except BotoCoreError:
        return False
    return True


def check_wrong_key(config: dict[str, str]) -> None:
    """A wrong key is an error that is not tried again."""
    store = make_store("objects", config | {"store.secret_access_key": "wrong"})
    partition = TopicIdPartition(b"t" * 16, "orders", 0)
    segment = RemoteLogSegmentMetadata(partition, b"s" * 16, 0, 9, 0, 1, 0, 100, ((0, 0),))
    try:
        store.fetch_log_segment(segment, 0, 10)
    except RemoteStorageError as error:
        assert not error.retriable, error
    else:
        raise AssertionError("a wrong key reads")


def check_broker(config: dict[str, str], folder: Path) -> None:
    """A broker copies segments, deletes its own, serves all records, and deletes the objects of a deleted topic."""
    settings = {f"rsm.config.{key}": value for key, value in (config | {"url": config["url"] + "/broker"}).items()}
    named = {"remote.log.storage.manager.class.name": "objects"} | settings
    properties = {key: value for key, value in tiered.properties(folder).items() if key != "rsm.config.dir"} | named
    file = folder / "tier.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in named.items()))
    with OdradekProcess(folder / "node", properties) as broker:
        tiered.make_topic(broker.bootstrap)
        values = tiered.values_of(_COUNT)
        tiered.produce(broker.bootstrap, values)
        start = tiered.await_local_start(broker.data_dir, _COUNT // 2)
        assert tiered.consume(broker.bootstrap, _COUNT) == tiered.numbered(values)
        broker.kill()
        broker.start()
        assert tiered.consume(broker.bootstrap, _COUNT) == tiered.numbered(values)
        done = odradek_command("tier", "check", "--config", str(file), "-b", broker.bootstrap, "--output", "json")
        assert (done.status, done.json) == (0, []), done
        print(f"{done.err.strip()}; {_COUNT} records are read, {start} of them from S3Proxy only")
        done = odradek_command("topic", "delete", tiered.TOPIC, "--yes", "-b", broker.bootstrap)
        assert done.status == 0, done
        store = make_store("objects", config | {"url": config["url"] + "/broker"})
        eventually(lambda: not list(store.objects()), what="the topic's objects are deleted", deadline_s=60)


def main() -> int:
    install()
    with tempfile.TemporaryDirectory() as name, running(Path(name)) as config:
        words = [sys.executable, "-m", "pytest", "-k", "S3Proxy", "tests/tiers/test_stores.py", *sys.argv[1:]]
        done = subprocess.run(words, cwd=ROOT, env=os.environ | {CONFIG: json.dumps(config)}, check=False)
        if done.returncode == 0:
            check_wrong_key(config)
            check_broker(config, Path(name))
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
