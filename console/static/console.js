// Theme, keys, times in the reader's zone, rows that open, searches in slices, filters, questions before changes, copying, and
// a notice when the console does not answer. Pages work without it, save for live figures.
"use strict";

const root = document.documentElement;
const kept = localStorage.getItem("theme");
if (kept) root.dataset.theme = kept;

const MOST_TAIL_ROWS = 500;
let isPaused = false;
let awaitsSection = false;
let isStopped = false;

function isTyping(target) {
  return target.closest("input, textarea, select, dialog[open]") !== null;
}

function switchTheme() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  globalThis.redrawCharts?.();
}

// ---- times

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const inZone = new Intl.DateTimeFormat("sv-SE", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  fractionalSecondDigits: 3,
});

function isUtc() {
  return localStorage.getItem("zone") === "utc";
}

function zoneTimes(within) {
  for (const one of within.querySelectorAll("time[datetime]")) {
    const moment = new Date(one.dateTime);
    if (isNaN(moment)) continue;
    const utc = one.dateTime.replace("T", " ").replace("Z", "");
    const isLocal = one.classList.contains("local") || (one.classList.contains("zoned") && !isUtc());
    one.textContent = isLocal ? inZone.format(moment).replace(",", ".") : utc;
    one.title = isLocal ? `${utc} UTC` : `${inZone.format(moment).replace(",", ".")} ${zone}`;
  }
  const words = isUtc() ? "UTC" : zone;
  for (const one of within.querySelectorAll("th, th a")) {
    if (!one.childElementCount && /^Time \(/.test(one.textContent)) one.textContent = `Time (${words})`;
  }
  for (const one of within.querySelectorAll("time.local")) one.textContent += ` ${zone}`;
  for (const one of within.querySelectorAll("input[name=zone]")) one.value = zone;
  const button = document.getElementById("zone");
  if (button) button.textContent = isUtc() ? "Times in UTC" : `Times in ${zone}`;
}

function switchZone() {
  localStorage.setItem("zone", isUtc() ? "local" : "utc");
  zoneTimes(document);
  globalThis.redrawCharts?.();
}

// ---- rows that open in place

// Returns whether the row was open or was opened before: then no request is needed.
function toggled(button) {
  const detail = button.closest("tr").nextElementSibling;
  if (!detail?.classList.contains("detail")) return false;
  detail.hidden = !detail.hidden;
  button.setAttribute("aria-expanded", String(!detail.hidden));
  return true;
}

// ---- searches in slices

function runSearch() {
  const progress = document.getElementById("progress");
  if (!progress?.dataset.next) return;
  const stop = progress.querySelector(".stop");
  const more = progress.querySelector(".continue");
  stop.hidden = isStopped;
  more.hidden = !isStopped;
  if (!isStopped) htmx.ajax("GET", progress.dataset.next, { source: progress, target: progress, swap: "outerHTML" });
}

function stopSearch() {
  isStopped = true;
  htmx.trigger(document.getElementById("progress"), "htmx:abort");
  const progress = document.getElementById("progress");
  progress.querySelector(".stop").hidden = true;
  const more = progress.querySelector(".continue");
  more.hidden = false;
  more.focus();
}

// ---- filters of lists, while their reader types

const filters = new Map();

function filterRows(section) {
  const text = filters.get(section.id);
  if (text === undefined) return;
  for (const row of section.querySelectorAll("tbody tr")) row.hidden = !row.textContent.toLowerCase().includes(text.toLowerCase());
}

document.addEventListener("input", (event) => {
  const field = event.target.closest(".filter input[type=search]");
  if (!field) return;
  const section = field.closest("section");
  filters.set(section.id, field.value);
  filterRows(section);
});

// ---- events

async function copyText(button) {
  const text = button.parentElement.querySelector("pre");
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch {
    // Without TLS browsers give pages no clipboard, save on loopback.
    text.hidden = false;
    getSelection().selectAllChildren(text);
    button.textContent = "Selected: press Ctrl+C";
  }
}

document.addEventListener("click", (event) => {
  if (event.target.closest("#theme")) switchTheme();
  if (event.target.closest("#zone")) switchZone();
  if (event.target.closest(".stop")) stopSearch();
  if (event.target.closest(".continue")) isStopped = false;
  const copy = event.target.closest(".copy");
  if (copy) copyText(copy);
});

document.addEventListener("change", (event) => {
  // "Between two times" shows the fields of the times.
  if (event.target.name === "range" && event.target.value === "between") {
    const more = event.target.form.querySelector("details.more");
    more.open = true;
    more.querySelector("input[type=datetime-local]").focus();
  }
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (awaitsSection) {
    awaitsSection = false;
    const link = document.querySelector(`header nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  } else if (event.key === "g") {
    awaitsSection = true;
  } else if (event.key === "/") {
    const field = document.querySelector(".search input[type=text], .filter input[type=search]");
    if (field) { field.focus(); event.preventDefault(); }
  } else if (event.key === "p") {
    isPaused = !isPaused;
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  }
});

function showOffline(isOffline) {
  const notice = document.getElementById("offline");
  if (notice) notice.hidden = !isOffline;
}

// Live parts stand still while their reader is in them, or has paused them.
function standsStill(live) {
  return isPaused || document.hidden || live.contains(document.activeElement) || live.querySelector(".uplot:hover") !== null;
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.matches(".toggle") && toggled(event.target)) event.preventDefault();
  if (event.target.id === "live" && standsStill(event.target)) event.preventDefault();
  if (event.target.id === "tail" && isPaused) event.preventDefault();
});
document.addEventListener("htmx:sendError", () => showOffline(true));
document.addEventListener("htmx:timeout", () => showOffline(true));
document.addEventListener("htmx:responseError", () => showOffline(true));
document.addEventListener("htmx:beforeSwap", (event) => {
  // A slice whose response was complete when its reader stopped the search: Continue reads it again.
  if (isStopped && event.detail.requestConfig?.target?.id === "progress") event.detail.shouldSwap = false;
  // The reader came into the live parts while the response was on its way: a swap would take the focus from the keyboard.
  const source = event.detail.requestConfig?.elt;
  if (source?.id === "live" && standsStill(source)) event.detail.shouldSwap = false;
});
document.addEventListener("htmx:afterSwap", (event) => {
  showOffline(false);
  const source = event.detail.requestConfig?.elt;
  if (source?.matches?.(".toggle")) source.setAttribute("aria-expanded", "true");
  const tail = document.getElementById("tail");
  while (tail && tail.rows.length > MOST_TAIL_ROWS) tail.deleteRow(-1);
});
document.addEventListener("htmx:afterSettle", () => {
  zoneTimes(document);
  globalThis.drawCharts?.();
  for (const section of document.querySelectorAll("section.list")) filterRows(section);
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.requestConfig?.target?.id === "progress" && event.detail.successful) setTimeout(runSearch);
});

zoneTimes(document);
globalThis.drawCharts?.();
if (typeof htmx !== "undefined") runSearch();
