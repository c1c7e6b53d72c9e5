"""The stores: a folder, shared with Apache's LocalTieredStorage; a folder, S3 and Azure by obstore; a user's own class.

Those in Azure and in S3Proxy run by hand: `python -m compat_tests.tiers.azure`, `python -m compat_tests.tiers.s3proxy`.
"""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.tiers.checked_reads import remote_index, remote_range
from odradek.tiers.checksums import decode_checksums
from odradek.tiers.guarded_store import GuardedStore
from odradek.tiers.leader_tasks import CopyPlan
from odradek.tiers.named_store import make_store
from odradek.tiers.object_names import directory_name, object_name, parse_object_name
from odradek.tiers.segment_metadata import COPY_SEGMENT_FINISHED, InvalidSegmentMetadata, RemoteLogSegmentMetadata
from odradek.tiers.store import (
    DamagedRemoteObject,
    InvalidStore,
    PartType,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStore,
)

from compat_tests.broker_process import free_port
from compat_tests.tiers.azure import CONFIG as AZURE
from compat_tests.tiers.s3proxy import CONFIG as S3PROXY
from tests.docs.pages import DOCS, blocks
from tests.tiers.harness.tier_oracle import Rejected, TierOracle
from tests.tiers.harness.tiered_log import PARTITION

#: Apache's names of the indexes.
INDEX_TYPES = {
    PartType.OFFSET_INDEX: "OFFSET",
    PartType.TIME_INDEX: "TIMESTAMP",
    PartType.TRANSACTION_INDEX: "TRANSACTION",
    PartType.LEADER_EPOCHS: "LEADER_EPOCH",
    PartType.PRODUCER_SNAPSHOT: "PRODUCER_SNAPSHOT",
}


#: Servers that run by hand, and the environment variables that have their configurations.
BY_HAND = {"Azure": AZURE, "S3Proxy": S3PROXY}
#: Stores in another process.
CLOUDS = [
    pytest.param("S3", marks=pytest.mark.slow),
    *(name for name, variable in BY_HAND.items() if variable in os.environ),
]


def of_cloud(request: pytest.FixtureRequest, name: str) -> dict[str, str]:
    """Returns the configuration of a store in a folder of the test's own."""
    config: dict[str, str] = json.loads(os.environ[BY_HAND[name]]) if name in BY_HAND else request.getfixturevalue("s3")
    return config | {"url": f"{config['url']}/{request.getfixturevalue('tmp_path').name}"}


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest) -> dict[str, str]:
    return of_cloud(request, request.param)


Make = Callable[[], RemoteStore]


def folder_store(folder: Path) -> RemoteStore:
    return make_store("folder", {"dir": str(folder)}, creates=True)


def objects_in(folder: Path) -> RemoteStore:
    return make_store("objects", {"url": folder.as_uri()}, creates=True)


@pytest.fixture(params=["folder", "objects in a folder", *CLOUDS])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes stores over the same place."""
    if request.param == "folder":
        return lambda: folder_store(tmp_path)
    if request.param == "objects in a folder":
        return lambda: objects_in(tmp_path / "some objects")
    config = of_cloud(request, request.param)
    return lambda: make_store("objects", config)


def copied(store: RemoteStore, plan: CopyPlan) -> RemoteLogSegmentMetadata:
    return plan.segment._replace(custom_metadata=store.copy_log_segment_data(plan.segment, plan.parts))


def contents(plan: CopyPlan) -> dict[PartType, bytes]:
    sources = plan.parts.sources()
    return {part: source if isinstance(source, bytes) else source.read_bytes() for part, source in sources}


def test_copied_parts_are_read_back_and_deleted(make: Make, plans: list[CopyPlan]) -> None:
    store = make()
    for plan in plans:
        segment = copied(store, plan)
        expected = contents(plan)
        log = expected.pop(PartType.LOG)
        assert {part: remote_index(store, segment, part) for part in expected} == expected
        assert remote_range(store, segment, 0, 1 << 20) == log
        assert remote_range(store, segment, 100, 61) == log[100:161]
        assert remote_range(store, segment, len(log) - 5, 100) == log[-5:]
        assert remote_range(store, segment, len(log), 100) == b""
    found = list(make().objects())
    assert {(one.segment_id, one.part): one.size for one in found} == {
        (plan.segment.segment_id, part): len(content) for plan in plans for part, content in contents(plan).items()
    }
    assert all(one.partition == PARTITION for one in found)
    for plan in plans:
        store.delete_log_segment_data(plan.segment)
        store.delete_log_segment_data(plan.segment)
    assert list(store.objects()) == []


def test_many_segments_are_deleted_at_once_and_no_other(make: Make, plans: list[CopyPlan]) -> None:
    store: Any = make()
    for plan in plans:
        copied(store, plan)
    kept, *deleted = [plan.segment._replace(state=COPY_SEGMENT_FINISHED) for plan in plans]
    store.delete_log_segments(deleted)
    assert {one.segment_id for one in store.objects()} == {kept.segment_id}
    store.delete_log_segments([kept, *deleted])
    assert list(store.objects()) == [], "parts that are not there are no error"


def test_missing_object_is_not_found(make: Make, plans: list[CopyPlan]) -> None:
    store, plan = make(), next(plan for plan in plans if plan.segment.txn_index_empty)
    with pytest.raises(RemoteResourceNotFound):
        store.fetch_log_segment(plan.segment, 0, 10)
    copied(store, plan)
    with pytest.raises(RemoteResourceNotFound):
        store.fetch_index(plan.segment, PartType.TRANSACTION_INDEX, 1000)


def test_repeated_copy_continues_with_the_missing_parts(make: Make, plans: list[CopyPlan]) -> None:
    store, plan = make(), plans[1]
    first = copied(store, plan)
    log = plan.parts.log
    missing = plan.parts._replace(log=log.with_name("gone"))
    with pytest.raises(RemoteStorageError):
        store.copy_log_segment_data(plan.segment._replace(segment_id=b"x" * 16), missing)
    assert {one.part for one in store.objects() if one.segment_id == b"x" * 16} >= {
        PartType.LEADER_EPOCHS, PartType.PRODUCER_SNAPSHOT, PartType.TIME_INDEX, PartType.OFFSET_INDEX,
    }  # fmt: skip
    again = copied(store, plan)
    assert again == first and len(list(store.objects())) == len(contents(plan)) * 2 - 1
    checksums = decode_checksums(again.custom_metadata)
    assert checksums is not None and set(checksums.of) == set(contents(plan))


def test_index_of_more_than_its_limit_is_not_read(make: Make, plans: list[CopyPlan]) -> None:
    store, plan = make(), plans[0]
    copied(store, plan)
    with pytest.raises(DamagedRemoteObject, match=r"\.snapshot is damaged at 3"):
        store.fetch_index(plan.segment, PartType.PRODUCER_SNAPSHOT, 3)


# ---- stores that fail or return other bytes


class Lying:
    """A store that returns `content` for everything."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def fetch_log_segment(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        return self._content

    def fetch_index(self, segment: RemoteLogSegmentMetadata, part: PartType, most_bytes: int) -> bytes:
        return self._content


@pytest.mark.parametrize("wrong", ["changed", "cut", "longer", "huge"])
def test_index_that_is_not_the_uploaded_one_is_damaged(tmp_path: Path, plans: list[CopyPlan], wrong: str) -> None:
    plan = plans[0]
    segment = copied(folder_store(tmp_path), plan)
    right = contents(plan)[PartType.OFFSET_INDEX]
    content = {
        "changed": bytes((right[0] ^ 1,)) + right[1:], "cut": right[:-8], "longer": right + right[:8],
        "huge": bytes(11 << 20),
    }[wrong]  # fmt: skip
    store: Any = Lying(content)
    with pytest.raises(DamagedRemoteObject) as raised:
        remote_index(store, segment, PartType.OFFSET_INDEX)
    assert object_name(segment, PartType.OFFSET_INDEX) in str(raised.value)


@pytest.mark.parametrize("size", [0, 99, 101])
def test_range_of_another_size_is_damaged(plans: list[CopyPlan], size: int) -> None:
    store: Any = Lying(bytes(size))
    with pytest.raises(DamagedRemoteObject, match=f"at 7: {size} bytes instead of 100"):
        remote_range(store, plans[0].segment, 7, 100)


def test_log_file_that_is_too_short_is_not_copied(tmp_path: Path, plans: list[CopyPlan]) -> None:
    store = folder_store(tmp_path)
    segment = plans[0].segment._replace(size_bytes=plans[0].segment.size_bytes + 1)
    with pytest.raises(RemoteStorageError, match="bytes, not") as raised:
        store.copy_log_segment_data(segment, plans[0].parts)
    assert not raised.value.retriable


def test_store_that_does_not_answer_is_a_retriable_error(plans: list[CopyPlan], sockets: None) -> None:
    access = {"store.access_key_id": "a", "store.secret_access_key": "b", "store.region": "c"}
    config = access | {"url": "s3://tiers/x", "store.endpoint": f"http://127.0.0.1:{free_port()}"}
    store = make_store("objects", config | {"client.allow_http": "true"})
    with pytest.raises(RemoteStorageError) as raised:
        store.fetch_log_segment(plans[0].segment, 0, 10)
    assert raised.value.retriable and "s3://tiers/x" in str(raised.value)


def test_wrong_bucket_is_named(cloud: dict[str, str], plans: list[CopyPlan]) -> None:
    url = cloud["url"].partition("://")[0] + "://no-such-bucket/x"
    store = make_store("objects", cloud | {"url": url})
    with pytest.raises(RemoteStorageError, match=url):
        store.copy_log_segment_data(plans[0].segment, plans[0].parts)


def test_object_that_is_there_is_written_again_only_if_its_size_is_wrong(
    cloud: dict[str, str], plans: list[CopyPlan]
) -> None:
    plan = plans[0]
    epochs = plan.parts.leader_epochs
    store = make_store("objects", cloud)
    copied(store, plan)
    same_size, longer = bytes(len(epochs)), epochs + b"9 9\n"
    for content, expected in ((same_size, epochs), (longer, longer)):
        copied(store, plan._replace(parts=plan.parts._replace(leader_epochs=content)))
        assert store.fetch_index(plan.segment, PartType.LEADER_EPOCHS, 1 << 20) == expected


def test_large_log_is_uploaded_in_parts(cloud: dict[str, str], tmp_path: Path, plans: list[CopyPlan]) -> None:
    log = tmp_path / "large.log"
    log.write_bytes(b"0123456789abcdef" * (20 << 16))  # 20 MiB, which is no multiple of the parts
    plan = plans[0]
    large = CopyPlan(plan.segment._replace(size_bytes=log.stat().st_size - 3), plan.parts._replace(log=log))
    store = make_store("objects", cloud | {"chunk.size.bytes": str(6 << 20)})
    segment = copied(store, large)
    assert copied(store, large) == segment, "an upload that is repeated is not made once more"
    assert {one.part: one.size for one in store.objects()}[PartType.LOG] == (20 << 20) - 3
    assert remote_range(store, segment, (12 << 20) - 4, 8) == b"cdef0123"
    store.delete_log_segment_data(segment)
    assert list(store.objects()) == []


#: Stores in a folder: class, key of the place, and the folder below it that has the objects.
IN_FOLDERS = [("folder", "dir", "kafka-tiered-storage"), ("objects", "url", "")]


def in_folder(name: str, key: str, place: Path, *, creates: bool = False) -> RemoteStore:
    return make_store(name, {key: place.as_uri() if key == "url" else str(place)}, creates=creates)


@pytest.mark.parametrize(("name", "key", "below"), IN_FOLDERS)
def test_call_of_a_store_whose_folder_is_missing_fails_and_creates_nothing(
    tmp_path: Path, plans: list[CopyPlan], name: str, key: str, below: str
) -> None:
    place, segment = tmp_path / "missing", plans[0].segment
    store = in_folder(name, key, place)
    for read in (
        lambda: store.fetch_log_segment(segment, 0, 10),
        lambda: store.fetch_index(segment, PartType.OFFSET_INDEX, 10),
        lambda: store.delete_log_segment_data(segment),
        lambda: list(store.objects()),
    ):
        with pytest.raises(RemoteStorageError, match=f"the folder {place / below} is not there") as raised:
            read()
        assert raised.value.retriable
    with pytest.raises(RemoteStorageError, match=str(place)):
        store.copy_log_segment_data(segment, plans[0].parts)
    assert not place.exists()
    in_folder(name, key, place, creates=True)
    assert list(store.objects()) == [], "a reader finds a folder that was made later"


@pytest.mark.parametrize(("name", "key", "below"), IN_FOLDERS)
def test_store_of_a_broker_creates_its_folder_at_the_start_only(
    tmp_path: Path, plans: list[CopyPlan], name: str, key: str, below: str
) -> None:
    place = tmp_path / "some" / "place"
    store = in_folder(name, key, place, creates=True)
    assert list(store.objects()) == [] and (place / below).is_dir()
    (place / below).rmdir()
    with pytest.raises(RemoteStorageError, match=str(place / below)):
        store.copy_log_segment_data(plans[0].segment, plans[0].parts)
    assert not (place / below).exists()


# ---- Apache's store in the same folder


def test_apache_reads_what_the_folder_store_has_written(
    tier_oracle: TierOracle, tmp_path: Path, plans: list[CopyPlan]
) -> None:
    store = folder_store(tmp_path)
    segments = [copied(store, plan) for plan in plans]
    tier_oracle.open_store(tmp_path)
    (ids,) = tier_oracle.segments().values()
    assert len(ids) == len(plans)
    for segment, plan in zip(segments, plans, strict=True):
        expected = contents(plan)
        log = expected.pop(PartType.LOG)
        assert tier_oracle.fetch_log(segment, 0) == log and tier_oracle.fetch_log(segment, 50) == log[50:]
        assert {part: tier_oracle.fetch_index(segment, INDEX_TYPES[part]) for part in expected} == expected
    tier_oracle.delete(segments[0])
    with pytest.raises(RemoteResourceNotFound):
        store.fetch_log_segment(segments[0], 0, 1)


def test_folder_store_reads_what_apache_has_written(
    tier_oracle: TierOracle, tmp_path: Path, plans: list[CopyPlan]
) -> None:
    tier_oracle.open_store(tmp_path)
    store = folder_store(tmp_path)
    for plan in plans:
        tier_oracle.copy(plan.segment, plan.parts)
        expected = contents(plan)
        assert remote_range(store, plan.segment, 0, 1 << 20) == expected.pop(PartType.LOG)
        assert {part: remote_index(store, plan.segment, part) for part in expected} == expected
    assert len({one.segment_id for one in store.objects()}) == len(plans)
    store.delete_log_segment_data(plans[0].segment)
    with pytest.raises(Rejected, match="RemoteResourceNotFound"):
        tier_oracle.fetch_log(plans[0].segment, 0)


def test_obstore_in_a_folder_has_the_same_layout(tmp_path: Path, plans: list[CopyPlan]) -> None:
    folder, objects = folder_store(tmp_path), objects_in(tmp_path / "kafka-tiered-storage")
    segment = copied(objects, plans[0])
    assert segment == copied(folder, plans[0])
    assert set(objects.objects()) == set(folder.objects())


# ---- names


def test_name_of_an_object_is_that_of_local_tiered_storage(plans: list[CopyPlan]) -> None:
    segment = plans[0].segment._replace(start_offset=42, segment_id=b"\xff" * 16)
    name = object_name(segment, PartType.TIME_INDEX)
    assert name == "orders-0-dG9waWMtaWQtb2YtbG9ncw/00000000000000000042-_____________________w.timeindex"
    found = parse_object_name(name, 7)
    assert found is not None and found == (PARTITION, 42, b"\xff" * 16, PartType.TIME_INDEX, 7)


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "orders-0-dG9waWMtaWQtb2YtbG9ncw/42-_____________________w.timeindex", "../x-0/00000000000000000042-a.log",
     "orders-0-dG9waWMtaWQtb2YtbG9ncw/00000000000000000042-_____________________w.exe",
     "orders-0-dG9waWMtaWQtb2YtbG9ncw/00000000000000000042-_____________________w"],
)  # fmt: skip
def test_foreign_name_is_no_object(name: str) -> None:
    assert parse_object_name(name, 1) is None


def test_topic_outside_the_folder_has_no_name() -> None:
    with pytest.raises(InvalidSegmentMetadata):
        directory_name(PARTITION._replace(topic="../../etc"))


# ---- a class of a user's own


class InMemory:
    """A store of a user's own."""

    made: InMemory

    def __init__(self, config: dict[str, str]) -> None:
        self.config = config
        InMemory.made = self

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: None


def test_class_of_a_user_is_made_with_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("of_a_user")
    module.InMemory = InMemory  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "of_a_user", module)
    store = make_store("python:of_a_user:InMemory", {"a": "b"})
    assert InMemory.made.config == {"a": "b"}
    store.close()


class Raising:
    """A store of a user's own, each method of which raises an exception."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., None]:
        def fails(*arguments: object) -> None:
            raise self._error

        return fails


CALLS: dict[str, Callable[[RemoteStore, CopyPlan], object]] = {
    "create": lambda store, plan: store.create(),
    "copy_log_segment_data": lambda store, plan: store.copy_log_segment_data(plan.segment, plan.parts),
    "fetch_log_segment": lambda store, plan: store.fetch_log_segment(plan.segment, 0, 1),
    "fetch_index": lambda store, plan: store.fetch_index(plan.segment, PartType.OFFSET_INDEX, 1),
    "delete_log_segment_data": lambda store, plan: store.delete_log_segment_data(plan.segment),
    "objects": lambda store, plan: list(store.objects()),
    "close": lambda store, plan: store.close(),
}
ERRORS = [
    OSError(5, "I/O"), FileNotFoundError("gone"), TimeoutError(), ConnectionResetError(), ValueError("no"), KeyError("k"),
    RuntimeError("of an SDK"), TypeError("a mistake"), StopIteration(), MemoryError(),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", CALLS)
def test_exception_of_a_users_class_is_a_failure_of_the_store(
    plans: list[CopyPlan], call: str, error: Exception
) -> None:
    store = GuardedStore(Raising(error), "Raising")  # type: ignore[arg-type]
    with pytest.raises(RemoteStorageError, match=f"Raising.{call}: {type(error).__name__}") as raised:
        CALLS[call](store, plans[0])
    assert raised.value.retriable


def test_store_error_of_a_users_class_stays_as_it_is(plans: list[CopyPlan]) -> None:
    error = RemoteStorageError("no access", retriable=False)
    with pytest.raises(RemoteStorageError) as raised:
        CALLS["fetch_log_segment"](GuardedStore(Raising(error), "Raising"), plans[0])  # type: ignore[arg-type]
    assert raised.value is error


@pytest.mark.parametrize("call", ["copy_log_segment_data", "fetch_log_segment", "fetch_index"])
@pytest.mark.parametrize("found", [7, "text", [b"x"], bytearray(b"x"), memoryview(b"x")])
def test_result_of_a_users_class_is_bytes_or_a_failure(plans: list[CopyPlan], call: str, found: object) -> None:
    store = GuardedStore(types.SimpleNamespace(**{call: lambda *arguments: found}), "Odd")  # type: ignore[arg-type]
    if isinstance(found, bytearray | memoryview):
        assert CALLS[call](store, plans[0]) == b"x"
    else:
        with pytest.raises(RemoteStorageError, match=f"Odd.{call} returned {type(found).__name__}, not bytes"):
            CALLS[call](store, plans[0])


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        ("com.example.MyStore", {}, "is not a store"),
        ("python:", {}, "is not a store"),
        ("python:no_such_module:A", {}, "ModuleNotFoundError"),
        ("python:json:NoSuchClass", {}, "AttributeError"),
        ("python:builtins:dict", {}, "has no method create, copy_log_segment_data"),
        ("folder", {}, "needs the key dir"),
        ("objects", {}, "needs a url"),
        ("objects", {"url": "s3://x", "chunk.size.bytes": "1"}, "chunks of 5242880 bytes at least"),
        ("objects", {"url": "s3://x", "chunk.size.bytes": "many"}, "chunk.size.bytes"),
        ("objects", {"url": "ftp://x/y"}, "ftp://x/y"),
        ("objects", {"url": "file://x/y"}, "file://x/y: the URL of a folder is file:///folder"),
        ("objects", {"url": "s3://x", "store.no_such_key": "1"}, "no_such_key"),
    ],
)
def test_configuration_without_a_store_is_named(name: str, config: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidStore, match=reason):
        make_store(name, config)


def test_store_of_the_guide_reads_back_its_parts_and_deletes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: list[CopyPlan]
) -> None:
    (block,) = [block for block in blocks(DOCS / "specialists/security-classes.md") if block.title == "own_store.py"]
    (tmp_path / "store_of_the_guide.py").write_text(block.text)
    monkeypatch.syspath_prepend(str(tmp_path))
    store = make_store("python:store_of_the_guide:OneFolder", {"dir": str(tmp_path / "segments")}, creates=True)
    for plan in plans:
        store.copy_log_segment_data(plan.segment, plan.parts)
    for plan in plans:
        for part, source in plan.parts.sources():
            content = source.read_bytes() if isinstance(source, Path) else source
            if part is PartType.LOG:
                assert store.fetch_log_segment(plan.segment, 10, 50) == content[10:60]
            else:
                assert store.fetch_index(plan.segment, part, len(content)) == content
        store.delete_log_segment_data(plan.segment)
        with pytest.raises(RemoteResourceNotFound):
            store.fetch_log_segment(plan.segment, 0, 1)
