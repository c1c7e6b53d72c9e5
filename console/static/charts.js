// Charts with axes, a readout below the pointer, and a range. uPlot draws them; the points stand in the page.
"use strict";

const RANGES = [[300, "5 min"], [3600, "1 h"], [21600, "6 h"]];
const CHART_HEIGHT = 170;
// By title: a chart outlives the swaps of its page's live parts, with its range and what its reader points at.
const charts = new Map();

function compact(value) {
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= unit) return `${+(value / unit).toFixed(1)}${letter}`;
  }
  return `${+value.toFixed(1)}`;
}

// In the zone that the reader chose: `isUtc` is console.js's.
function clock(seconds) {
  const zone = isUtc() ? { timeZone: "UTC" } : {};
  return new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", second: "2-digit", ...zone }).format(seconds * 1000);
}

function colors() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(name).trim();
  return { line: named("--accent"), text: named("--quiet"), grid: named("--line") };
}

function numbers(text) {
  return text ? text.split(" ").map(Number) : [];
}

function rangeButtons(chart) {
  const bar = document.createElement("div");
  bar.className = "ranges";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Range");
  for (const [seconds, words] of RANGES) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words;
    button.setAttribute("aria-pressed", String(seconds === chart.range));
    button.addEventListener("click", () => {
      chart.range = seconds;
      for (const one of bar.children) one.setAttribute("aria-pressed", String(one === button));
      update(chart);
    });
    bar.append(button);
  }
  return bar;
}

// The keys to the left and right move the readout from point to point.
function moveByKeys(chart) {
  const plot = chart.plot;
  plot.root.tabIndex = 0;
  plot.root.setAttribute("role", "application");
  plot.root.setAttribute("aria-roledescription", "chart");
  plot.root.setAttribute("aria-label", `${chart.title}: arrow keys move along the points`);
  plot.root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const last = plot.data[0].length - 1;
    const index = Math.min(last, Math.max(0, (plot.cursor.idx ?? last) + step));
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: plot.valToPos(plot.data[1][index], "y") });
  });
}

function made(holder) {
  const { line, text, grid } = colors();
  const unit = holder.dataset.unit.trim();
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const options = {
    width: Math.max(200, holder.clientWidth),
    height: CHART_HEIGHT,
    scales: { y: { range: (plot, least, most) => [0, Math.max(1, most ?? 1) * 1.1] } },
    axes: [{ ...axis, values: (plot, values) => values.map(clock) }, { ...axis, size: 56, values: (plot, values) => values.map(compact) }],
    series: [
      { label: "Time", value: (plot, value) => (value == null ? "–" : clock(value)) },
      {
        label: unit || holder.dataset.title, stroke: line, width: 2, fill: `${line}22`,
        value: (plot, value) => (value == null ? "–" : value.toLocaleString()),
      },
    ],
    cursor: { drag: { x: true, y: false } },
  };
  const chart = { title: holder.dataset.title, range: RANGES[0][0], plot: new uPlot(options, [[], []], null) };
  chart.buttons = rangeButtons(chart);
  moveByKeys(chart);
  return chart;
}

function update(chart) {
  const { times, values } = chart;
  const end = times.length ? times[times.length - 1] : Date.now() / 1000;
  const first = times.findIndex((time) => time >= end - chart.range);
  chart.plot.setData([times.slice(Math.max(0, first)), values.slice(Math.max(0, first))], false);
  chart.plot.batch(() => {
    chart.plot.setScale("x", { min: end - chart.range, max: end });
  });
}

function drawCharts() {
  // A page that its reader leaves may have only a part of its scripts.
  if (typeof uPlot === "undefined" || typeof isUtc === "undefined") return;
  for (const holder of document.querySelectorAll(".chart[data-times]")) {
    let chart = charts.get(holder.dataset.title);
    if (!chart) charts.set(holder.dataset.title, (chart = made(holder)));
    chart.times = numbers(holder.dataset.times);
    chart.values = numbers(holder.dataset.values);
    if (!holder.contains(chart.plot.root)) holder.replaceChildren(chart.buttons, chart.plot.root);
    chart.plot.setSize({ width: Math.max(200, holder.clientWidth), height: CHART_HEIGHT });
    update(chart);
  }
}

// After the theme changed, charts are drawn with its colors.
function redrawCharts() {
  for (const chart of charts.values()) chart.plot.destroy();
  charts.clear();
  drawCharts();
}

addEventListener("resize", drawCharts);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
