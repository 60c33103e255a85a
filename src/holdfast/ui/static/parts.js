// Parts of a page: each has an address, and is fetched when it is seen, or when something has changed.
import { ask, show, trouble, words } from "./server.js";

const under = new WeakMap();

// With `again`, a refusal leaves what is shown, and is told at the top of the page.
export async function fill(part, again = false) {
  // Of several wishes to fetch a part while it is being fetched, one is granted afterwards.
  const state = under.get(part) ?? { busy: false, again: false, shown: "" };
  under.set(part, state);
  if (state.busy) {
    state.again = true;
    return;
  }
  state.busy = true;
  do {
    state.again = false;
    const answer = await ask(part.dataset.src);
    if (again && !answer.ok) {
      // The live connection tells of a server that is gone.
      if (answer.status) trouble(part, words(answer));
    } else {
      trouble(part, "");
      if (state.shown !== answer.text) {
        keepOpen(part, () => show(part, answer));
        state.shown = answer.text;
      }
      if (answer.ok) delete part.dataset.load;
    }
  } while (state.again);
  state.busy = false;
}

// What makes an element the same one after its part was replaced.
function identity(one) {
  return one.dataset.place ?? one.getAttribute("href") ?? one.dataset.scrubber ?? (one.dataset.act ? JSON.stringify(one.dataset) : one.dataset.seq ?? one.textContent);
}

// What the reader has opened, scrolled to and focused stays so when a part is replaced.
function keepOpen(part, replace) {
  const opened = new Map([...part.querySelectorAll("details")].map((one) => [one.querySelector("summary")?.textContent, one.open]));
  const scrolled = [...part.querySelectorAll(".card, .text, .scroll")].map((one) => one.scrollTop);
  const focus = part.contains(document.activeElement) ? document.activeElement : null;
  const key = focus && identity(focus);
  const places = focus ? [...part.querySelectorAll(FOCUSABLE)] : [];
  replace();
  for (const one of part.querySelectorAll("details")) {
    const was = opened.get(one.querySelector("summary")?.textContent);
    if (was !== undefined) one.open = was;
  }
  [...part.querySelectorAll(".card, .text, .scroll")].forEach((one, n) => { one.scrollTop = scrolled[n] ?? 0; });
  if (focus) {
    const now = [...part.querySelectorAll(FOCUSABLE)];
    // What is gone hands its focus to what stands in its place.
    const next = now.find((one) => identity(one) === key) ?? now[Math.min(places.indexOf(focus), now.length - 1)];
    if (next) next.focus({ preventScroll: true });
    else document.getElementById("main").focus({ preventScroll: true });
  }
}

const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";

export function startParts() {
  for (const part of document.querySelectorAll('[data-load="now"]')) fill(part);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && entry.target.dataset.load) fill(entry.target);
    }
  }, { rootMargin: "300px" });
  for (const part of document.querySelectorAll('[data-load="later"]')) seen.observe(part);
  document.addEventListener("input", onScrub);
}

function onScrub(event) {
  const range = event.target.closest?.("[data-scrubber]");
  if (!range) return;
  const point = range.dataset.points.split(",")[Number(range.value)];
  const part = range.closest("[data-part]");
  const isLast = Number(range.value) === Number(range.max);
  const base = part.dataset.src.split("&point=")[0];
  part.dataset.src = isLast ? base : `${base}&point=${point}`;
  fill(part);
}
