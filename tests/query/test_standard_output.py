"""Rows on the standard output stand behind what a file has, and before what is written next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from odradek.protocol.records.record import Record

from tests.columns.harness.logs import NOW_MS, GeneratedLog

pytestmark = pytest.mark.usefixtures("processes")
_TIMEOUT_S = 120
_SQL = 'select "offset" from t order by 1'
_ROWS = {
    "jsonl": "".join(f'{{"offset":{at}}}\n' for at in range(3)),
    "csv": "offset\n0\n1\n2\n",
    "json": '[\n\t{"offset":0},\n\t{"offset":1},\n\t{"offset":2}\n]\n',
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = GeneratedLog(tmp_path_factory.mktemp("stdout"), 1)
    made.append([Record(offset, NOW_MS, b"k", b"v", []) for offset in range(3)])
    made.close()
    return made.topic_path.parent


def query(data_dir: Path, form: str, redirected: str, sql: str = _SQL) -> subprocess.CompletedProcess[bytes]:
    """Runs the query in a shell, with `redirected` behind it."""
    command = f'"$0" -m odradek query "$1" --data-dir "$2" -b 127.0.0.1:1 --output {form} {redirected}'
    words = ["sh", "-c", command, sys.executable, sql, str(data_dir)]
    return subprocess.run(words, capture_output=True, check=False, timeout=_TIMEOUT_S)


@pytest.mark.parametrize("form", _ROWS)
def test_query_output_is_appended_and_is_followed_by_what_comes_next(data_dir: Path, form: str, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text("before\n")
    done = query(data_dir, form, f'>> "{file}" && echo after >> "{file}"')
    assert done.returncode == 0, done.stderr
    assert file.read_text() == f"before\n{_ROWS[form]}after\n"


def test_query_output_of_a_group_of_commands_keeps_its_order(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    done = query(data_dir, "jsonl", f'> "{file}"; exec > "{file}"; echo first; "$0" -m odradek query "$1" --data-dir "$2" '
                 "-b 127.0.0.1:1 --output jsonl; echo last")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert file.read_text() == f"first\n{_ROWS['jsonl']}last\n"


def test_query_output_is_whole_as_a_file_and_as_a_pipe(data_dir: Path, tmp_path: Path) -> None:
    large = "select range as n from range(300000) order by 1"
    file, piped = tmp_path / "rows.parquet", tmp_path / "piped.parquet"
    assert query(data_dir, "parquet", f'> "{file}"', large).returncode == 0
    assert query(data_dir, "parquet", f'| cat > "{piped}"', large).returncode == 0
    assert pq.read_table(file).column("n").to_pylist() == list(range(300_000))
    assert pq.read_table(piped).equals(pq.read_table(file))


def test_query_error_leaves_a_file_as_it_was(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text("before\n")
    done = query(data_dir, "csv", f'>> "{file}"', "select nope from t")
    assert done.returncode != 0 and b"nope" in done.stderr and b"Traceback" not in done.stderr
    assert file.read_text() == "before\n"


@pytest.mark.parametrize("words", ["{}; -- the end", "/* a; b */ {} -- the end", "; {};;", "{}\n/* ; */"])
def test_semicolons_and_comments_around_a_statement_leave_its_output(words: str, data_dir: Path) -> None:
    done = query(data_dir, "csv", "", words.format(_SQL))
    assert (done.returncode, done.stdout.decode()) == (0, _ROWS["csv"]), done.stderr
