"""Registers: values that clients write and read, such as a group's committed offset and the epoch of a producer.

Their operations must be linearizable. Porcupine decides that (`porcupine/`), and where Go is missing `linearizability.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from compat_tests.go_programs import build_go

from .case import Case
from .index import Index
from .linearizability import is_linearizable
from .operation import FAIL, FAULT, INFO, READ, RISE, WRITE, Operation

_SOURCE = Path(__file__).resolve().parent / "porcupine"
_PROGRAM = _SOURCE.parents[2] / ".tools" / "porcupine" / "porcupine"
#: The program is compiled without optimizations.
_SEARCH_S = 300
#: How long after a fault a coordinator may not know yet that it was replaced.
_REPLACED_NS = 2_000_000_000


class SearchTooLong(RuntimeError):
    """Raised when Porcupine did not decide in time."""


def register_cases(index: Index) -> Iterator[Case]:
    registers: dict[str, list[Operation]] = defaultdict(list)
    faults = [operation for operation in index.history if operation.f == FAULT]
    for operation in index.history:
        # A read or a rise without a response proves nothing.
        is_known = operation.type != FAIL and not (operation.type == INFO and operation.f in (READ, RISE))
        if operation.f in (READ, WRITE, RISE) and is_known and not _may_be_old(operation, faults):
            registers[operation.register].append(operation)
    for name in _not_linearizable(registers):
        yield Case("nonlinearizable", f"no order of the operations explains {name}", registers[name])


def _may_be_old(operation: Operation, faults: list[Operation]) -> bool:
    """Returns whether a coordinator may have answered that was replaced: Kafka checks no lease before a read."""
    return operation.f == READ and any(
        fault.invoked <= operation.completed and operation.invoked <= fault.completed + _REPLACED_NS for fault in faults
    )


def _not_linearizable(registers: dict[str, list[Operation]]) -> list[str]:
    if not registers:
        return []
    program = porcupine()
    if program is None:
        return [name for name, operations in registers.items() if not is_linearizable(operations)]
    return judged_by_porcupine(program, registers)


@cache
def porcupine() -> Path | None:
    """Returns the compiled program, None without Go."""
    if shutil.which("go") is None:
        return None
    try:
        build_go(_SOURCE, _PROGRAM)
    except subprocess.CalledProcessError:
        return None
    return _PROGRAM


def judged_by_porcupine(program: Path, registers: dict[str, list[Operation]]) -> list[str]:
    """Returns the registers without a linearization."""
    lines = "".join(_line(name, operation) for name, operations in registers.items() for operation in operations)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True, timeout=_SEARCH_S)
    outcomes = [line.split(" ", 1) for line in done.stdout.splitlines()]
    if late := [name for outcome, name in outcomes if outcome == "unknown"]:
        raise SearchTooLong(f"no decision about {late}")
    return [name for outcome, name in outcomes if outcome == "illegal"]


def _line(name: str, operation: Operation) -> str:
    is_open = operation.type == INFO
    shown = {
        "register": name,
        "process": operation.process,
        "f": operation.f,
        "value": operation.value,
        "invoked": operation.invoked,
        "completed": None if is_open else operation.completed,
    }
    return json.dumps(shown) + "\n"
