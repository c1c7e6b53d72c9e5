"""jars.py: the connector for Spark's own release, without the jars that Spark includes."""

from __future__ import annotations

import re
from pathlib import Path

import jars
import pyspark
import pytest
from jars import JarsMissing, connector_jars, fetch, releases_in, scala


def artifact(jar: Path) -> str:
    return re.sub(r"-\d[\w.]*(-\d+)?\.jar$", "", jar.name)


def test_spark_gets_the_connector_and_the_three_jars_that_it_needs() -> None:
    built_for = scala(pyspark.__version__)
    assert {artifact(jar) for jar in connector_jars()} == {
        f"spark-sql-kafka-0-10_{built_for}",
        f"spark-token-provider-kafka-0-10_{built_for}",
        "kafka-clients",
        "commons-pool2",
    }
    assert any(pyspark.__version__ in jar.name for jar in connector_jars())


def test_no_jar_is_brought_a_second_time() -> None:
    shipped = {artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    assert shipped
    assert not shipped & {artifact(jar) for jar in connector_jars()}


def test_a_release_without_a_connector_names_those_that_have_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] Could not find artifact spark-sql-kafka'\necho '\tat a.trace'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(jars, "home", lambda version: tmp_path / "jars")
    monkeypatch.setattr(jars, "releases_of", lambda scala_version: ["4.2.0", "4.1.3", "4.0.4"])
    with pytest.raises(JarsMissing) as failure:
        fetch("4.1.9")
    assert str(failure.value) == (
        "there is no Kafka connector for Spark 4.1.9 in Maven's repository; it has 4.2.0, 4.1.3, 4.0.4. Install one "
        "of these: pip install 'pyspark==4.1.3'"
    )


def test_a_failure_of_maven_is_its_first_line_without_colours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    maven = tmp_path / "mvn"
    maven.write_text(
        "#!/bin/sh\nprintf '\\033[0m\\033[0m[ERROR] No descriptor of a.jar\\n[ERROR] \\n[ERROR] See more\\n'\nexit 1\n"
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(jars, "home", lambda version: tmp_path / "jars")
    with pytest.raises(JarsMissing) as failure:
        fetch("4.1.9")
    assert str(failure.value) == "Maven could not fetch the connector of Spark 4.1.9: No descriptor of a.jar"


def test_releases_are_listed_from_the_newest_without_previews() -> None:
    listed = ["3.4.0", "3.5.1", "4.0.0", "4.0.0-preview1", "4.0.10"]
    metadata = "".join(f"<version>{one}</version>" for one in listed)
    assert releases_in(metadata) == ["4.0.10", "4.0.0", "3.5.1"]
