"""`odradek --version` shows the version and the level of Apache Kafka."""

from __future__ import annotations

import pytest
from odradek.cli.main import main
from odradek.version import KAFKA_LEVEL, __version__


def test_version_names_the_level_of_apache_kafka(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["odradek", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"odradek {__version__} (Apache Kafka {KAFKA_LEVEL})\n"
