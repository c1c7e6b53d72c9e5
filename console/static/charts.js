// Charts with axes, a readout below the pointer, and a range. uPlot draws them; the points stand in the page.
"use strict";

const RANGES = [[300, "5 min"], [3600, "1 h"], [21600, "6 h"]];
const DAY = 86400;
// Points of the page reach back so far; older ones are requested, and again after a minute.
const NEAR = 21600;
const OLD_AFTER_MS = 60000;
// Without a point for so long a line has a gap: points are a minute apart, and ten minutes in long ranges.
const GAP = 150;
const LONG_GAP = 1500;
const CHART_HEIGHT = 170;
// By title: a chart outlives the swaps of its page's live parts, with its range and what its reader points at.
const charts = new Map();

function compact(value) {
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= unit) return `${+(value / unit).toFixed(1)}${letter}`;
  }
  return `${+value.toFixed(1)}`;
}

// In the zone that the reader chose: `isUtc` is console.js's. With `hasDay` the day stands for the seconds.
function clock(seconds, hasDay) {
  const zone = isUtc() ? { timeZone: "UTC" } : {};
  const shown = hasDay ? { month: "2-digit", day: "2-digit" } : { second: "2-digit" };
  return new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", ...shown, ...zone }).format(seconds * 1000);
}

function colors() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(name).trim();
  return { line: named("--accent"), text: named("--quiet"), grid: named("--line") };
}

function numbers(text) {
  return text ? text.split(" ").map(Number) : [];
}

// Ranges of a chart: those of the page, and days where the console keeps them.
function rangesOf(holder) {
  const days = holder.dataset.series ? Number(holder.dataset.days) : 0;
  return [...RANGES, ...[1, days].filter((one, index, all) => one <= days && all.indexOf(one) === index).map((one) => [one * DAY, `${one} d`])];
}

function rangeButtons(chart, ranges) {
  const bar = document.createElement("div");
  bar.className = "ranges";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Range");
  for (const [seconds, words] of ranges) {
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
    axes: [{ ...axis, space: 96, values: (plot, values) => values.map((value) => clock(value, chart.range > NEAR)) }, { ...axis, size: 56, values: (plot, values) => values.map(compact) }],
    series: [
      { label: "Time", value: (plot, value) => (value == null ? "–" : clock(value, chart.range > NEAR)) },
      {
        label: unit || holder.dataset.title, stroke: line, width: 2, fill: `${line}22`,
        value: (plot, value) => (value == null ? "–" : value.toLocaleString()),
      },
    ],
    cursor: { drag: { x: true, y: false } },
  };
  const chart = { title: holder.dataset.title, range: RANGES[0][0], old: null };
  chart.plot = new uPlot(options, [[], []], null);
  chart.buttons = rangeButtons(chart, rangesOf(holder));
  moveByKeys(chart);
  return chart;
}

// Requests the points of a long range, unless those at hand are new; the chart is drawn again with them.
function requestOld(chart) {
  const days = chart.range / DAY;
  if (chart.old && chart.old.days === days && Date.now() - chart.old.at < OLD_AFTER_MS) return;
  chart.old = { days, at: Date.now(), times: chart.old?.times ?? [], values: chart.old?.values ?? [] };
  fetch(`${chart.series}&days=${days}`)
    .then((response) => (response.ok ? response.json() : Promise.reject(response.status)))
    .then((found) => {
      chart.old = { ...chart.old, ...found };
      if (chart.range > NEAR) update(chart);
    })
    .catch(() => { chart.old.at = 0; });
}

// All points of the range: those that were requested, and after them those of the page.
function points(chart) {
  const { times, values } = chart;
  if (chart.range <= NEAR) return [times, values];
  requestOld(chart);
  const count = times.length ? chart.old.times.findIndex((time) => time >= times[0]) : -1;
  const end = count < 0 ? chart.old.times.length : count;
  return [[...chart.old.times.slice(0, end), ...times], [...chart.old.values.slice(0, end), ...values]];
}

// With a null where points are missing: a line across would be made up.
function withGaps(times, values, longest) {
  const made = [[], []];
  times.forEach((time, index) => {
    if (index && time - times[index - 1] > longest) {
      made[0].push((time + times[index - 1]) / 2);
      made[1].push(null);
    }
    made[0].push(time);
    made[1].push(values[index]);
  });
  return made;
}

function update(chart) {
  const [times, values] = points(chart);
  const end = times.length ? times[times.length - 1] : Date.now() / 1000;
  const first = Math.max(0, times.findIndex((time) => time >= end - chart.range));
  const longest = chart.range > NEAR ? LONG_GAP : GAP;
  chart.plot.setData(withGaps(times.slice(first), values.slice(first), longest), false);
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
    chart.series = holder.dataset.series;
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
