"""Every file of a data directory, damaged in every way while the broker is stopped, and the start that follows.

The start either serves every record outside the damaged bytes at its own offset, or fails with one line that names the
file and `odradek repair`. No directory becomes a stray, no traceback is logged, and no offset is assigned twice.
"""

from __future__ import annotations

import logging
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import odradek
from odradek.protocol.errors import ErrorCode
from odradek.server.controller.metadata_log import DIRECTORY_NAME
from odradek.storage.files.failures import LogDirectoryFailure
from odradek.storage.files.meta_properties import InvalidMetaProperties

from tests.hostile.damaged_files import good_records
from tests.server.harness.data_path import DataPath, batch_of

#: Small segments, so that each partition has some closed ones.
TOPIC_CONFIGS = {"internal_segment_bytes": "2048", "index_interval_bytes": "256", "retention_ms": "-1"}
PARTITIONS = 2
BATCHES = 24
RECORDS_PER_BATCH = 3
CONFIG = {"log.flush.offset.checkpoint.interval.ms": "100", "replica.high.watermark.checkpoint.interval.ms": "100"}

#: Errors that `odradek start` writes as one line.
REJECTIONS = (OSError, odradek.InvalidConfig, InvalidMetaProperties, LogDirectoryFailure)

Damaging = Callable[[Path, random.Random], None]
Key = tuple[str, int]


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    rewrite(path, bytes(content))


def flip_many(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(min(8, len(content))):
        content[rng.randrange(len(content))] ^= 0xFF
    rewrite(path, bytes(content))


def halve(path: Path, rng: random.Random) -> None:
    rewrite(path, path.read_bytes()[: path.stat().st_size // 2])


def cut(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    rewrite(path, content[: rng.randrange(len(content))] if content else b"")


def empty(path: Path, rng: random.Random) -> None:
    rewrite(path, b"")


def fill_with_rubbish(path: Path, rng: random.Random) -> None:
    rewrite(path, rng.randbytes(path.stat().st_size or 64))


def remove(path: Path, rng: random.Random) -> None:
    path.unlink()


def replace_by_directory(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Damaging] = {
    "flip": flip,
    "flip-many": flip_many,
    "halve": halve,
    "cut": cut,
    "empty": empty,
    "rubbish": fill_with_rubbish,
    "remove": remove,
    "directory": replace_by_directory,
}


def rewrite(path: Path, content: bytes) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWUSR)
    path.write_bytes(content)


@dataclass
class Images:
    """Data directories after a clean stop and after a kill, and the acknowledged records: value by offset."""

    clean: Path
    killed: Path
    sent: dict[Key, dict[int, bytes]] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> Images:
        images = cls(folder / "clean", folder / "killed")
        with odradek.Broker(data_dir=images.clean, config=CONFIG) as broker:
            path = DataPath(broker)
            for name in (path.topic(PARTITIONS, **TOPIC_CONFIGS), path.topic(PARTITIONS, **TOPIC_CONFIGS)):
                for index in range(PARTITIONS):
                    images.sent[name, index] = fill(path, name, index)
            wait_for_checkpoints(images.clean, images.sent)
            shutil.copytree(images.clean, images.killed)
        return images

    def files(self, image: Path) -> list[str]:
        found = [str(path.relative_to(image)) for path in sorted(image.rglob("*")) if path.is_file()]
        return [name for name in found if name != ".lock"]


def fill(path: DataPath, name: str, index: int) -> dict[int, bytes]:
    sent: dict[int, bytes] = {}
    for number in range(BATCHES):
        values = [f"{name}-{index}-{number}-{record}-".encode() * 4 for record in range(RECORDS_PER_BATCH)]
        response = path.produce(name, batch_of(*values), index=index)
        assert response.error_code == 0
        sent.update({response.base_offset + delta: value for delta, value in enumerate(values)})
    return sent


def wait_for_checkpoints(directory: Path, sent: dict[Key, dict[int, bytes]]) -> None:
    from tests.server.harness.data_path import wait_until

    def are_there() -> bool:
        path = directory / "replication-offset-checkpoint"
        text = path.read_text() if path.exists() else ""
        return all(f"{name} {index} {len(values)}\n" in text for (name, index), values in sent.items())

    wait_until(are_there, "the high watermarks are not written")


@dataclass(frozen=True)
class Case:
    stop: str
    file: str
    damage: str
    seed: int

    def __str__(self) -> str:
        return f"{self.damage} of {self.file} after a {self.stop} stop, seed {self.seed}"


def kind_of(file: str) -> str:
    """Returns the kind of a file: its name in any partition, or its suffix for segments. One file represents its kind."""
    path = Path(file)
    owner = "" if path.parent == Path() else ("metadata/" if path.parent.name == DIRECTORY_NAME else "partition/")
    return owner + (path.suffix if path.stem.isdigit() or "-" in path.stem[20:21] else path.name)


def cases(images: Images, seed: int, each: int = 1) -> list[Case]:
    """Returns every kind of file with every damage after both stops, `each` times with different files and positions."""
    rng = random.Random(seed)
    made = []
    for stop, image in (("clean", images.clean), ("killed", images.killed)):
        kinds: dict[str, list[str]] = {}
        for file in images.files(image):
            kinds.setdefault(kind_of(file), []).append(file)
        for files in kinds.values():
            for damage in DAMAGES:
                made += [Case(stop, rng.choice(files), damage, rng.randrange(1 << 30)) for _ in range(each)]
    return made


class Lines(logging.Handler):
    """The lines of the broker's log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        return "\n".join(record.getMessage() for record in self.records)


class DamageFound(AssertionError):
    """A case that fails; the message names it."""


def run(images: Images, case: Case, folder: Path) -> str:
    """Runs one case in a copy of the image. Returns "refused" or "served". Raises DamageFound."""
    image = images.clean if case.stop == "clean" else images.killed
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(image, copy)
    DAMAGES[case.damage](copy / case.file, random.Random(case.seed))
    lines = Lines()
    logging.getLogger("odradek").addHandler(lines)
    try:
        try:
            outcome = _start(images, case, copy, lines)
        finally:
            logging.getLogger("odradek").removeHandler(lines)
        traces = [f"{record.getMessage()}: {record.exc_info[1]!r}" for record in lines.records if record.exc_info]
        _hold(not traces, case, f"tracebacks: {traces}")
        strays = [path.name for path in copy.iterdir() if path.name.endswith("-stray")]
        _hold(not strays, case, f"strays: {strays}")
        return outcome
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _start(images: Images, case: Case, copy: Path, lines: Lines) -> str:
    broker = odradek.Broker(data_dir=copy, config=CONFIG)
    try:
        broker.start()
    except REJECTIONS as rejection:
        text = str(rejection)
        _hold("\n" not in text, case, f"more than one line: {text}")
        _hold(Path(case.file).name in text, case, f"does not name the file: {text}")
        _hold("odradek repair" in text, case, f"names no command: {text}")
        return "refused"
    except Exception as bug:
        raise DamageFound(f"{case}: {type(bug).__name__}: {bug}") from bug
    try:
        path = DataPath(broker)
        for key, sent in images.sent.items():
            _check_partition(path, case, key, sent, copy, lines)
        path.close()
    finally:
        broker.stop()
    return "served"


def _check_partition(path: DataPath, case: Case, key: Key, sent: dict[int, bytes], copy: Path, lines: Lines) -> None:
    name, index = key
    _hold(
        path.broker.server.partitions.hosted.get(key) is not None, case, f"{key}: the partition is not known any more"
    )
    hosted = path.hosted(name, index)
    got = dict(_read_all(path, key, max(hosted.log.log_end_offset, len(sent))))
    wrong = {offset for offset, value in got.items() if sent.get(offset) != value}
    _hold(not wrong, case, f"{key}: other records at {sorted(wrong)[:5]}")
    missing = set(sent) - set(got)
    in_file = Path(case.file)
    is_own = in_file.parent.name == f"{name}-{index}" and in_file.suffix == ".log"
    _hold(is_own or not missing, case, f"{key}: {len(missing)} records are missing, from {min(missing, default=0)}")
    if missing:
        allowed = _offsets_in_file(sent, copy, case, hosted)
        _hold(missing <= allowed, case, f"{key}: missing outside of the file: {sorted(missing - allowed)[:5]}")
        # After a clean stop the broker does not verify logs: readers see a wrong CRC, and the scrubber reports it later.
        is_silent = case.damage in ("flip", "flip-many") and case.stop == "clean"
        said = is_silent or "is damaged" in lines.text
        _hold(said, case, f"{key}: {len(missing)} records are missing, and no line says so")
    produced = path.produce(name, batch_of(b"new"), index=index)
    _hold(not produced.error_code, case, f"{key}: {ErrorCode(produced.error_code).name} for a new record")
    _hold(produced.base_offset >= len(sent), case, f"{key}: offset {produced.base_offset} is assigned twice")


def _offsets_in_file(sent: dict[int, bytes], copy: Path, case: Case, hosted: object) -> set[int]:
    bases = sorted(int(path.stem) for path in (copy / case.file).parent.glob("*.log") if path.stem.isdigit())
    base = int(Path(case.file).stem)
    following = min((one for one in bases if one > base), default=len(sent))
    return {offset for offset in sent if base <= offset < following}


def _read_all(path: DataPath, key: Key, end: int) -> Iterator[tuple[int, bytes]]:
    """Yields the records of a reader that skips the offsets that it cannot read."""
    name, index = key
    offset = path.hosted(name, index).log.log_start_offset
    while offset < end:
        response = path.fetch(name, offset, index=index)
        records = {at: value for at, value in good_records(bytes(response.records or b"")).items() if at >= offset}
        yield from records.items()
        offset = max(records) + 1 if records else offset + 1


def _hold(condition: bool, case: Case, words: str) -> None:
    if not condition:
        raise DamageFound(f"{case}: {words}")
