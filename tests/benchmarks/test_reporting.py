"""The page of the benchmarks and the picture of the README agree with the figures in benchmarks.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reporting import headlines, report

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "specialists"
RESULTS = report.read(FOLDER / "benchmarks.json")


def test_summary_of_the_page_is_that_of_the_figures() -> None:
    page = (FOLDER / "benchmarks.md").read_text(encoding="utf-8")
    assert "\n\n" + "\n".join(report.summary(RESULTS)) + "\n\n" in page


@pytest.mark.usefixtures("processes")
def test_picture_of_the_readme_shows_measured_figures(tmp_path: Path) -> None:
    assert set(headlines.FIGURES.values()) <= {result.key for result in RESULTS}
    headlines.draw(RESULTS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.usefixtures("processes")
def test_picture_leaves_out_figures_that_were_not_measured(tmp_path: Path) -> None:
    headlines.draw(RESULTS[:3], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0
