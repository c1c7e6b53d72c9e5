// Run in a page by layout.py: returns the faults of its layout.
const faults = [], boxes = [];
const width = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > width) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);
const named = (node) => JSON.stringify(node.textContent.trim().slice(0, 60));
const path = (element) =>
  element.closest("section, nav, header, dl, main")?.id || element.closest("[class]")?.className || element.tagName;
function shown(element) {
  let clip = { left: -1e6, top: -1e6, right: 1e6, bottom: 1e6 };
  for (let one = element; one && one !== document.body; one = one.parentElement) {
    const style = getComputedStyle(one);
    if (style.overflowX !== "visible" || style.overflowY !== "visible") {
      const box = one.getBoundingClientRect();
      clip = { left: Math.max(clip.left, box.left), top: Math.max(clip.top, box.top), right: Math.min(clip.right, box.right), bottom: Math.min(clip.bottom, box.bottom) };
    }
  }
  return clip;
}
function block(element) {
  let one = element;
  while (["inline", "contents"].includes(getComputedStyle(one).display)) one = one.parentElement;
  return one;
}
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const range = document.createRange();
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.textContent.trim() || element.closest("script, style, template, select, .skip, .chart, svg") || !element.checkVisibility({ visibilityProperty: true })) continue;
  range.selectNodeContents(node);
  const lines = [...range.getClientRects()].filter((one) => one.width > 0.5 && one.height > 0.5);
  if (!lines.length || lines[0].right < 0) continue;
  const clip = shown(element), holder = block(element), inner = holder.getBoundingClientRect();
  const scrolls = getComputedStyle(holder).overflowX !== "visible";
  for (const one of lines) {
    if (!scrolls && one.right > inner.right + 1.5 && clip.right > inner.right + 1.5) {
      faults.push(`${named(node)} leaves its box by ${Math.round(one.right - inner.right)} pixels in ${path(element)}`);
    }
    const box = { left: Math.max(one.left, clip.left), top: Math.max(one.top, clip.top), right: Math.min(one.right, clip.right), bottom: Math.min(one.bottom, clip.bottom), node };
    if (box.right - box.left > 1 && box.bottom - box.top > 1) boxes.push(box);
  }
  // A break is allowed after a character that is none of a word, and in words that no line holds.
  if (lines.length > 1 && !element.closest("pre, .tree, .effects, .words, .chip")) {
    for (const found of node.textContent.matchAll(/[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Hebrew}\p{Script=Arabic}\p{N}]+/gu)) {
      if (found[0].length > 24) continue;
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const tops = new Set([...range.getClientRects()].filter((one) => one.width > 0.5).map((one) => Math.round(one.top)));
      if (tops.size > 1) faults.push(`the word ${found[0]} breaks in ${path(element)}`);
    }
  }
}
boxes.sort((a, b) => a.top - b.top);
for (let i = 0; i < boxes.length; i++) {
  for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom - 3; j++) {
    const a = boxes[i], b = boxes[j];
    if (a.node !== b.node && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - b.top > 3) {
      faults.push(`${named(a.node)} and ${named(b.node)} overlap in ${path(a.node.parentElement)}`);
    }
  }
}
// Charts draw the labels of their axes on a canvas.
if (typeof charts !== "undefined") {
  for (const chart of charts.values()) {
    if (!chart.plot.root.isConnected) continue;
    const axis = chart.plot.axes[0], values = axis._values ?? [], context = document.createElement("canvas").getContext("2d");
    context.font = "12px system-ui, sans-serif";
    const spans = (axis._splits ?? []).map((split, index) => [chart.plot.valToPos(split, "x"), context.measureText(values[index] ?? "").width]);
    for (let index = 1; index < spans.length; index++) {
      const gap = spans[index][0] - spans[index - 1][0] - (spans[index][1] + spans[index - 1][1]) / 2;
      if (gap < 2) { faults.push(`labels of the axis of ${chart.title} collide by ${Math.round(-gap)} pixels`); break; }
    }
  }
}
return [...new Set(faults)].slice(0, 20);
