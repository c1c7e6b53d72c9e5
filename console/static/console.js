// Theme, keys, times in the reader's zone, rows that open, searches in slices, filters, dialogs before changes, copying, and
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

// Between a slice that was lost with its connection and its repetition.
const LOST_SLICE_MS = 1000;

function repeatSlice(event) {
  const progress = document.getElementById("progress");
  if (event.detail.requestConfig?.target?.id !== "progress" || isStopped) return;
  setTimeout(() => {
    if (progress?.isConnected && !isStopped) runSearch();
  }, LOST_SLICE_MS);
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

// ---- counts of rows beside the titles of lists, which searches in slices, tails and filters change

function countRows(section) {
  const count = section.querySelector(".heading .count");
  const table = section.querySelector("table");
  if (!count || !table) return;
  const rows = [...table.tBodies[0].rows].filter((row) => !row.classList.contains("detail"));
  const shown = rows.filter((row) => !row.hidden).length;
  const whole = rows.length + Number(count.dataset.more);
  const words = shown === whole ? String(whole) : `${shown} of ${whole}`;
  if (count.textContent !== words) count.textContent = words;
}

// Takes the oldest rows off a long tail. They stay in the count.
function cutTail(tail) {
  const count = tail.closest("section").querySelector(".heading .count");
  const rows = [...tail.rows].filter((row) => !row.classList.contains("detail"));
  for (const row of rows.slice(MOST_TAIL_ROWS)) {
    if (row.nextElementSibling?.classList.contains("detail")) row.nextElementSibling.remove();
    row.remove();
    if (count) count.dataset.more = String(Number(count.dataset.more) + 1);
  }
}

document.addEventListener("input", (event) => {
  const field = event.target.closest(".filter input[type=search]");
  if (!field) return;
  const section = field.closest("section");
  filters.set(section.id, field.value);
  filterRows(section);
  countRows(section);
});

// ---- dialogs: of forms, and before changes without a form of their own

const BARE_WORD = /^[\w@%+=:,./-]+$/;

// The text of a template with the fields of the form in place of their names. `quoted`: as words of the shell. A part in
// brackets stands once for each line of its field, and not at all where it is empty.
function filled(template, form, quoted) {
  const value = (name) => {
    const field = form.elements[name];
    return field?.type === "checkbox" ? (field.checked ? field.value : "") : (field?.value ?? "").trim();
  };
  const word = (text) => (quoted && text && !BARE_WORD.test(text) ? `'${text.replaceAll("'", "'\\''")}'` : text);
  const parts = template.replace(/\[([^\[\]{}]*)\{([\w-]+)\}([^\[\]{}]*)\]/g, (_, before, name, after) =>
    value(name).split("\n").filter((line) => line.trim()).map((line) => before + word(line.trim()) + after).join(""));
  return parts.replace(/\{([\w-]+)\}/g, (_, name) => word(value(name)));
}

function showEffects(form) {
  for (const one of form.querySelectorAll("[data-template]")) {
    one.textContent = filled(one.dataset.template, form, one.tagName === "PRE");
  }
}

function openDialog(dialog) {
  if (dialog.open) dialog.close(); // a page opens it without its backdrop
  dialog.showModal();
  const form = dialog.querySelector("form");
  if (form) showEffects(form);
  dialog.querySelector("input:not([type=hidden]), select, textarea, button")?.focus();
}

// Asks before the form is sent: what changes, from what to what, and the command that does the same.
function confirmChange(form, submitter) {
  const dialog = document.getElementById("confirm");
  const words = submitter?.textContent || "Change";
  const effects = JSON.parse(form.dataset.effects ?? "[]");
  dialog.querySelector("h2").textContent = form.dataset.confirm;
  dialog.querySelector(".words").hidden = true;
  const table = dialog.querySelector(".effects");
  table.hidden = effects.length === 0;
  table.tBodies[0].replaceChildren(...effects.map((cells) => {
    const row = document.createElement("tr");
    cells.forEach((text, index) => { row.insertCell().textContent = index === 2 ? filled(text, form) || "its default" : text; });
    return row;
  }));
  const same = dialog.querySelector(".same");
  same.hidden = !form.dataset.command;
  same.querySelector("pre").textContent = form.dataset.command ? filled(form.dataset.command, form, true) : "";
  const yes = dialog.querySelector("button[value=yes]");
  yes.textContent = words;
  yes.className = submitter?.classList.contains("danger") ? "danger" : "primary";
  dialog.returnValue = "";
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "yes") return;
    form.dataset.isConfirmed = "yes";
    form.requestSubmit(submitter);
  }, { once: true });
  dialog.showModal();
  yes.focus();
}

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
  const opener = event.target.closest("[data-opens]");
  if (opener) {
    event.preventDefault();
    openDialog(document.getElementById(opener.dataset.opens));
  }
  const cancel = event.target.closest("dialog .cancel");
  if (cancel?.closest("dialog").open) {
    event.preventDefault();
    cancel.closest("dialog").close();
  }
  const pause = event.target.closest(".pause");
  if (pause) setPaused(!isPaused);
  // The whole row opens, save for its links and while a text is selected.
  const row = event.target.closest("tr.opens");
  if (row && !event.target.closest("a, button, input, label") && getSelection().isCollapsed) row.querySelector(".toggle").click();
});

function setPaused(wanted) {
  isPaused = wanted;
  for (const one of document.querySelectorAll(".pause")) {
    one.setAttribute("aria-pressed", String(isPaused));
    one.textContent = isPaused ? "Resume" : "Pause";
  }
}

// The next row, or the one before: its button or its first link gets the focus.
function moveFocus(step) {
  const rows = [...document.querySelectorAll("main tbody > tr:not(.detail):not([hidden])")].filter((row) => row.querySelector(".toggle, a"));
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))];
  next?.querySelector(".toggle, a").focus();
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("dialog form");
  if (form) showEffects(form);
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
  const form = event.target;
  const isAsked = form.dataset.confirm && form.dataset.isDialog === undefined;
  if (isAsked && !form.dataset.isConfirmed) {
    event.preventDefault();
    confirmChange(form, event.submitter);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (awaitsSection) {
    awaitsSection = false;
    const link = document.querySelector(`#menu a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  } else if (event.key === "g") {
    awaitsSection = true;
  } else if (event.key === "/") {
    const field = document.querySelector(".search input[type=text], .filter input[type=search]");
    if (field) { field.focus(); event.preventDefault(); }
  } else if (event.key === "p") {
    setPaused(!isPaused);
  } else if (event.key === "j" || event.key === "k") {
    moveFocus(event.key === "j" ? 1 : -1);
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  }
});

function showOffline(isOffline, words = "") {
  const notice = document.getElementById("offline");
  if (!notice) return;
  notice.dataset.words ??= notice.textContent;
  notice.textContent = words || notice.dataset.words;
  notice.hidden = !isOffline;
}

// The sentence of a response that is an error: a live part does not become it.
function wordsOf(response) {
  const found = new DOMParser().parseFromString(response, "text/html").querySelector(".words.bad:not([hidden])");
  return found ? found.textContent.trim() : "";
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
for (const lost of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(lost, (event) => {
    showOffline(true);
    repeatSlice(event);
  });
}
document.addEventListener("htmx:responseError", (event) => showOffline(true, wordsOf(event.detail.xhr.responseText)));
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
  if (source?.matches?.(".toggle")) {
    source.setAttribute("aria-expanded", "true");
    const row = source.closest("tr"), detail = row.nextElementSibling;
    // Not more: in a table of fixed columns each has a part of the width.
    if (detail?.classList.contains("detail")) detail.cells[0].colSpan = row.cells.length;
  }
  const tail = document.getElementById("tail");
  if (tail) cutTail(tail);
  for (const section of document.querySelectorAll("section.list")) countRows(section);
});
document.addEventListener("htmx:afterSettle", () => {
  zoneTimes(document);
  globalThis.drawCharts?.();
  for (const section of document.querySelectorAll("section.list")) {
    filterRows(section);
    countRows(section);
  }
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.requestConfig?.target?.id === "progress" && event.detail.successful) setTimeout(runSearch);
});

for (const one of document.querySelectorAll(".pause")) one.hidden = false;
for (const one of document.querySelectorAll("main dialog")) {
  if (one.open || location.hash === `#${one.id}`) openDialog(one);
}
zoneTimes(document);
globalThis.drawCharts?.();
if (typeof htmx !== "undefined") runSearch();
