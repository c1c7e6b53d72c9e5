"""`python -m compat_tests.tiers.azure`: runs the stores' tests with Azure Blob Storage, by the server Azurite.

Azurite comes from npm (190 MB), the client that makes the container from pip; both go to .tools/azurite. `make test` does
without.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from compat_tests.broker_process import free_port
from compat_tests.downloads import download
from compat_tests.needed_tools import needed
from compat_tests.recipes import eventually

ROOT = Path(__file__).resolve().parents[2]
_HOME = ROOT / ".tools" / "azurite"
_PACKAGES = ("azurite@3.37.0",)
_CLIENT = "azure-storage-blob>=12.20,<13"
#: The environment variable that has the configuration of a store as JSON.
CONFIG = "ODRADEK_TEST_AZURE"
#: The account that each Azurite has.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_CONTAINER = "tiers"
_MAKE = """
import sys
from azure.core.exceptions import ServiceRequestError
from azure.storage.blob import BlobServiceClient
address, account, key, container = sys.argv[1:]
try:
    BlobServiceClient(address, {"account_name": account, "account_key": key}, retry_total=0).create_container(container)
except ServiceRequestError:
    sys.exit(75)
"""


def install() -> None:
    needed("npm")
    _HOME.mkdir(parents=True, exist_ok=True)
    for command in (
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(_HOME), *_PACKAGES],
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(_HOME / "python"), "--upgrade", _CLIENT],
    ):
        done = download(command)
        assert done.returncode == 0, done.stdout + done.stderr


def main() -> int:
    if not (_HOME / "python").exists():
        install()
    port = free_port()
    address = f"http://127.0.0.1:{port}/{ACCOUNT}"
    server = [str(_HOME / "node_modules" / ".bin" / "azurite-blob"), "--blobPort", str(port), "--inMemoryPersistence"]
    process = subprocess.Popen(
        [*server, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], cwd=_HOME, stdout=subprocess.DEVNULL
    )
    try:
        eventually(lambda: _makes_container(address), what="Azurite has the container")
        config = {
            "url": f"az://{_CONTAINER}/prod/logs", "client.allow_http": "true", "store.endpoint": address,
            "store.account_name": ACCOUNT, "store.account_key": KEY,
        }  # fmt: skip
        words = [sys.executable, "-m", "pytest", "-k", "Azure", "tests/tiers/test_stores.py", *sys.argv[1:]]
        done = subprocess.run(words, cwd=ROOT, env=os.environ | {CONFIG: json.dumps(config)}, check=False)
        return done.returncode
    finally:
        process.terminate()
        process.wait(60)


def _makes_container(address: str) -> bool:
    command = [sys.executable, "-c", _MAKE, address, ACCOUNT, KEY, _CONTAINER]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(_HOME / "python")}, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 75), re.sub(r"\s+", " ", done.stderr)[-500:]
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
