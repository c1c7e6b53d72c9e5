"""Programs in Go, built quickly: they run for seconds, and Go compiles the packages beneath them for a minute."""

from __future__ import annotations

import os
from pathlib import Path

from .downloads import download

#: Without C, optimizations and tables for debuggers: two thirds of the CPU time. Go compiles each package once where all
#: programs have the same options.
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "'-gcflags=all=-N -l -dwarf=false' -ldflags=-w -buildvcs=false"}
_DEADLINE_S = 300


def build_go(source: Path, program: Path) -> None:
    """Builds the program in a folder; Go's own cache makes a second build quick."""
    program.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-o", str(program), "."]
    download(command, cwd=source, timeout=_DEADLINE_S, env=os.environ | GO_ENVIRONMENT).check_returncode()
