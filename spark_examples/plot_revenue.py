"""Plots the revenue topic: revenue over the day by region, as a PNG.

    python spark_examples/plot_revenue.py --output revenue.png

It needs no Spark: the topic is a table of the last value per key, which any Kafka client can read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import matplotlib

matplotlib.use("Agg")  # draws to a file, without a window

import matplotlib.pyplot as plt
import typer
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter
from topics import last_per_key

#: Distinguishable with any colour vision (Okabe and Ito).
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"]
INK, FAINT = "#222222", "#777777"
#: Minutes per drawn step: the first that makes no more than MOST_STEPS steps.
STEPS = (1, 5, 15, 30, 60, 1440)
MOST_STEPS = 100


@dataclass(frozen=True)
class Revenue:
    """Cents by minute (counted from 1970, UTC) and region, and the regions, by descending revenue."""

    cents: Counter[tuple[int, str]]
    regions: list[str]

    @property
    def minutes(self) -> range:
        return range(min(minute for minute, _ in self.cents), max(minute for minute, _ in self.cents) + 1)

    def of(self, region: str, minutes: Iterable[int]) -> int:
        return sum(self.cents[minute, region] for minute in minutes)


def read_revenue(bootstrap: str, topic: str) -> Revenue:
    """Reads the revenue that the stream has counted until now."""
    cents: Counter[tuple[int, str]] = Counter()
    earned: Counter[str] = Counter()
    for value in last_per_key(bootstrap, topic).values():
        row = json.loads(value)
        minute = datetime.fromisoformat(row["window_start"]).replace(tzinfo=UTC)
        cents[int(minute.timestamp()) // 60, row["region"]] += row["revenue_cents"]
        earned[row["region"]] += row["revenue_cents"]
    if not cents:
        raise SystemExit(f"there is nothing in {topic} yet")
    return Revenue(cents, [region for region, _ in earned.most_common()])


def draw(revenue: Revenue) -> Figure:
    """Returns the figure: one band per region. It leaves out the last, incomplete step; the sums include it."""
    figure, axes = plt.subplots(figsize=(12, 6), dpi=120, layout="constrained")
    minutes = revenue.minutes
    step = next((step for step in STEPS if len(minutes) <= step * MOST_STEPS), STEPS[-1])
    end = minutes.stop - step if len(minutes) > step else minutes.stop
    spans = [range(first, first + step) for first in range(minutes.start // step * step, end, step)]
    times = [datetime.fromtimestamp(span.start * 60, UTC) for span in spans]
    bands = [[revenue.of(region, span) / 100 for span in spans] for region in revenue.regions]
    axes.stackplot(times, bands, colors=COLOURS, alpha=0.9, linewidth=0.6, edgecolor="white")
    _name_busiest(axes, times, [sum(euros) for euros in zip(*bands, strict=True)])
    _add_titles(axes, revenue, step)
    _add_scales(axes, times)
    return figure


def _name_busiest(axes: Axes, times: list[datetime], totals: list[float]) -> None:
    axes.plot(times, totals, color=INK, linewidth=1.2)
    time, most = max(zip(times, totals, strict=True), key=lambda point: point[1])
    axes.set_ylim(0, 1.15 * most)
    axes.plot([time], [most], marker="o", markersize=5, color=INK)
    words = {"xytext": (0, 9), "textcoords": "offset points", "color": INK}
    axes.annotate(f"busiest: € {most:,.0f} at {time:%H:%M}", (time, most), ha=_towards_middle(times, time), **words)


def _towards_middle(times: list[datetime], time: datetime) -> str:
    """Returns the alignment of a label at `time` that keeps it inside the plot."""
    share = (time - times[0]) / max(times[-1] - times[0], timedelta(minutes=1))
    return "left" if share < 0.2 else "right" if share > 0.8 else "center"


def _add_titles(axes: Axes, revenue: Revenue, step: int) -> None:
    first, last = (datetime.fromtimestamp(minute * 60, UTC) for minute in (revenue.minutes[0], revenue.minutes[-1]))
    sums = {region: revenue.of(region, revenue.minutes) / 100 for region in revenue.regions}
    per = f"per {step} minutes" if step > 1 else "per minute"
    span = f"{first:%-d %B %Y %H:%M} to {last:%-d %B %Y %H:%M} UTC"
    axes.set_title("Revenue by region", loc="left", fontsize=16, fontweight="bold", color=INK, pad=26)
    subtitle = f"{per}, {span}, € {sum(sums.values()):,.2f} in all"
    axes.text(0, 1.02, subtitle, transform=axes.transAxes, color=FAINT, fontsize=11)
    colours = dict(zip(revenue.regions, COLOURS, strict=False))
    keys = [Patch(color=colours[region], label=f"{region.title()}\n€ {sums[region]:,.0f}") for region in sums]
    key = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "labelspacing": 1.2, "frameon": False}
    axes.legend(handles=keys[::-1], labelcolor=INK, fontsize=11, **key)


def _add_scales(axes: Axes, times: list[datetime]) -> None:
    locator = AutoDateLocator(minticks=5, maxticks=12)
    axes.xaxis.set_major_locator(locator)
    clock = ["%Y", "%B", "%-d %B", "%H:%M", "%H:%M", "%H:%M:%S"]
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, formats=clock, zero_formats=clock, show_offset=False))
    short = EngFormatter(sep="")
    axes.yaxis.set_major_formatter(lambda euros, _: f"€ {short(euros)}")
    axes.set_xlim(times[0], times[-1])
    axes.grid(axis="y", color="white", alpha=0.5, linewidth=0.8)
    axes.tick_params(colors=FAINT, length=0, pad=8)
    for side in axes.spines.values():
        side.set_visible(False)


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="What revenue_stream.py wrote.")] = "revenue",
    output: Annotated[Path, typer.Option(help="The PNG.")] = Path("revenue.png"),
) -> None:
    """Draw revenue over the day by region."""
    draw(read_revenue(bootstrap, topic)).savefig(output)
    print(output)


if __name__ == "__main__":
    typer.run(main)
