"""Builds of the kernel with AddressSanitizer and UndefinedBehaviorSanitizer: the fuzzer (fuzz.c), and the Python module.

`python -m tests.kernel.sanitized SEED SECONDS` runs the fuzzer for longer. A failure prints the number of its input;
`python -m tests.kernel.sanitized SEED 1 NUMBER` runs that input alone.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from isal import isal_zlib
from odradek.protocol.records.batch import HEADER_BYTES, iter_headers
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.files.partition_metadata import PARTITION_METADATA, encode_partition_metadata

_HERE = Path(__file__).resolve().parent
ROOT = _HERE.parents[1]
KERNEL = ROOT / "kernel"
#: The sources that need no Python.
CORE = (
    "columns.c",
    "encoding.c",
    "gzip.c",
    "key_filter.c",
    "lz4.c",
    "records.c",
    "small_log.c",
    "snappy.c",
    "validation.c",
    "zstd.c",
)
_FLAGS = (
    "-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip
_BUILD_DEADLINE_S = 240
#: The numbers of kinds in fuzz.c.
_KINDS = {Compression.LZ4: 0, Compression.SNAPPY: 1, Compression.GZIP: 2, Compression.ZSTD: 3}
_RECORDS, _BATCH, _SMALL_LOG, _FOLDER, _COLUMNS = 4, 5, 6, 7, 8
#: The topic id that fuzz.c expects.
_TOPIC_ID = bytes(15) + b"\1"
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=4",
    "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
}
_CALL_MAIN = """
import ctypes, sys
arguments = [argument.encode() for argument in sys.argv[2:]]
sys.exit(ctypes.CDLL(sys.argv[1]).main(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))
"""


@dataclass(frozen=True)
class Outcome:
    """The number of inputs of one kind that the kernel accepted, and of those that it rejected."""

    accepted: int
    rejected: int


def build_fuzzer(folder: Path) -> Path:
    """Compiles the fuzzer with the sources of the kernel: a library, since ISA-L's own library loads only in Python."""
    library = folder / "fuzz.so"
    sources = [str(_HERE / "fuzz.c"), *(str(KERNEL / name) for name in CORE)]
    _compile(*_FLAGS, "-shared", "-fPIC", "-o", str(library), *sources, "-ldl")
    return library


def build_module(folder: Path) -> None:
    """Compiles the Python module into the folder."""
    include = sysconfig.get_paths()["include"]
    sources = [str(KERNEL / name) for name in ("odradek_kernel.c", *CORE)]
    _compile(
        *_FLAGS, "-shared", "-fPIC", "-DPy_LIMITED_API=0x030B0000", f"-I{include}", "-o",
        str(folder / "odradek_kernel.abi3.so"), *sources, "-ldl",
    )  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    """Returns the environment of an interpreter that finds modules in the folder, and loads the sanitizers first.

    Python allocates by malloc then, so that accesses outside of its objects are detected, too.
    """
    libraries = [_compile(f"-print-file-name={name}").strip() for name in ("libasan.so", "libubsan.so")]
    return {
        **os.environ,
        **SANITIZERS,
        "LD_PRELOAD": " ".join(libraries),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
    }


def _compile(*arguments: str) -> str:
    command = [os.environ.get("CC", "gcc"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_corpus(path: Path, seed: int) -> None:
    """Writes valid payloads of each kind: the fuzzer mutates them."""
    rng = random.Random(seed)
    entries: list[tuple[int, bytes]] = []
    for count in (1, 2, 9, 200):
        for compressibility in (1, 12):
            records = [_record(rng, number, compressibility) for number in range(count)]
            plain = encode_batch(records)
            entries.append((_RECORDS, plain[HEADER_BYTES:]))
            entries.append((_BATCH, plain))
            entries.append((_COLUMNS, plain))
            for codec, kind in _KINDS.items():
                entries.append((kind, bytes(compress(codec, plain[HEADER_BYTES:]))))
                entries.append((_BATCH, bytes(encode_batch(records, compression=codec))))
            entries.append((_KINDS[Compression.GZIP], zlib.compress(plain, 0, wbits=31)))
            logs = list(_small_logs(rng, count, compressibility))
            entries.extend((_SMALL_LOG, one) for one in logs)
            if compressibility == 1:  # files take longer than memory
                entries.extend((_FOLDER, _folder(one, rng.choice((0, 1, 1 << 40)))) for one in logs)
    path.write_bytes(b"".join(bytes([kind]) + len(data).to_bytes(4, "big") + data for kind, data in entries))


def _small_logs(rng: random.Random, count: int, compressibility: int) -> Iterator[bytes]:
    """Yields logs with all entries of their indexes, and without any: sizes of the indexes, the indexes, the segment."""
    segment, offsets, times = bytearray(), bytearray(), bytearray()
    for number in range(min(count, 20)):
        at = 1_700_000_000_000 + number
        offsets += struct.pack(">ii", number, len(segment))
        times += struct.pack(">qi", at, number)
        record = replace(_record(rng, number, compressibility), timestamp=at)
        segment += encode_batch([record], base_offset=number, leader_epoch=number // 8)
    yield bytes((len(offsets), len(times))) + offsets + times + segment
    yield bytes(2) + segment


def _folder(log: bytes, base_offset: int) -> bytes:
    """Returns the files of a replica's folder: of each the sizes of its name and content, the name, the content."""
    index, time_index = log[0], log[0] + log[1]
    segment = bytearray(log[2 + time_index :])
    for position, header in list(iter_headers(segment)):
        struct.pack_into(">q", segment, position, base_offset + header.base_offset)
    files = {
        PARTITION_METADATA: encode_partition_metadata(_TOPIC_ID),
        f"{base_offset:020d}.log": segment,
        f"{base_offset:020d}.index": log[2 : 2 + index],
        f"{base_offset:020d}.timeindex": log[2 + index : 2 + time_index],
    }
    return b"".join(
        struct.pack(">BH", len(name), len(content)) + name.encode() + content for name, content in files.items()
    )


def _record(rng: random.Random, number: int, repeats: int) -> Record:
    headers = [("h" * rng.randrange(4), rng.randbytes(rng.randrange(5))) for _ in range(rng.choice((0, 0, 2)))]
    value = None if rng.random() < 0.1 else rng.randbytes(rng.randrange(20)) * repeats
    return Record(number, 1_700_000_000_000 + rng.randrange(500), rng.choice((None, b"k")), value, headers)


def run_fuzzer(
    library: Path, corpus: Path, seed: int, *, inputs: int, seconds: int, first: int = 0
) -> dict[str, Outcome]:
    """Runs the fuzzer until it has run `inputs`, or `seconds` have passed. Raises AssertionError for an error."""
    arguments = [str(one) for one in ("fuzz", seed, first, inputs, seconds, corpus, isal_zlib.__file__)]
    done = subprocess.run(
        [sys.executable, "-c", _CALL_MAIN, str(library), *arguments],
        capture_output=True,
        text=True,
        env=environment(library.parent),
        timeout=seconds + 60,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    rows = (line.split() for line in done.stdout.splitlines())
    return {kind: Outcome(int(accepted), int(rejected)) for kind, accepted, rejected in rows}


def main() -> None:
    seed, seconds = int(sys.argv[1]), int(sys.argv[2])
    first, inputs = (int(sys.argv[3]), 1) if len(sys.argv) > 3 else (0, 1 << 62)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_corpus(folder / "corpus", seed)
        outcomes = run_fuzzer(
            build_fuzzer(folder), folder / "corpus", seed, inputs=inputs, seconds=seconds, first=first
        )
    print(sum(one.accepted + one.rejected for one in outcomes.values()), "inputs:", outcomes)


if __name__ == "__main__":
    main()
