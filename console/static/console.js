// Theme, keys, questions before changes, copying, and a notice when the console does not answer.
"use strict";

const root = document.documentElement;
const kept = localStorage.getItem("theme");
if (kept) root.dataset.theme = kept;

const MOST_TAIL_ROWS = 500;
let isPaused = false;
let awaitsSection = false;

function isTyping(target) {
  return target.closest("input, textarea, select, dialog[open]") !== null;
}

function switchTheme() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

document.addEventListener("click", async (event) => {
  if (event.target.closest("#theme")) switchTheme();
  const copy = event.target.closest(".copy");
  if (copy) {
    const text = copy.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(text.textContent);
      copy.textContent = "Copied";
    } catch {
      // Without TLS browsers give pages no clipboard, save on loopback.
      getSelection().selectAllChildren(text);
      copy.textContent = "Selected: press Ctrl+C";
    }
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
    const field = document.querySelector(".search input[type=text]");
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

document.addEventListener("htmx:beforeRequest", (event) => {
  // Live parts stand still while their reader is in them, or has paused them.
  const isRead = event.target.contains(document.activeElement) || document.hidden;
  if (isPaused || (isRead && event.target.id === "live")) event.preventDefault();
});
document.addEventListener("htmx:sendError", () => showOffline(true));
document.addEventListener("htmx:timeout", () => showOffline(true));
document.addEventListener("htmx:responseError", () => showOffline(true));
document.addEventListener("htmx:afterSwap", () => {
  showOffline(false);
  const tail = document.getElementById("tail");
  while (tail && tail.rows.length > MOST_TAIL_ROWS) tail.deleteRow(-1);
});
