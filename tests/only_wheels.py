"""`python -m tests.only_wheels [--versions 3.11 3.14]`: asks pip whether each extra installs without a compiler.

A requirement without a wheel for a version fails the installation of everybody who has no compiler. The program prints
one line for each version and extra, and fails if one that is not in `BUILT` has no wheels.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.pythons.environments import distributed_extras

#: Requirements that pip builds: immutables has no wheels for 3.14 yet.
BUILT = {("3.14", "odradek"): ("immutables",)}
#: Extras that pip builds, with headers that the documentation names.
_BUILT_EXTRAS = {"kerberos"}
#: These have no wheels, and no compiled parts either.
_PURE = ("pyspark",)
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")


def error_of_pip(version: str, requirements: list[str]) -> str:
    """Returns pip's last line when wheels cannot satisfy the requirements, or an empty text."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
        command += ["--only-binary", ":all:", "--python-version", version, "--target", str(Path(folder) / "packages")]
        command += [word for platform in _PLATFORMS for word in ("--platform", platform)]
        done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.only_wheels", description=__doc__)
    parser.add_argument("--versions", nargs="+", default=["3.11", "3.12", "3.13", "3.14"], metavar="3.N")
    failed = False
    for version in parser.parse_args().versions:
        for extra, requirements in distributed_extras().items():
            built = BUILT.get((version, extra), ())
            found = error_of_pip(version, [one for one in requirements if not one.startswith((*built, *_PURE))])
            outcome = "is built, as documented" if extra in _BUILT_EXTRAS else found or "wheels"
            print(", ".join((f"{version} {extra}: {outcome}", *(f"{one} is built" for one in built))), flush=True)
            failed = failed or bool(found and extra not in _BUILT_EXTRAS)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
