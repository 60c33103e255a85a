// The rows of a long run: only those near the place that is looked at are in the page.
import { fill } from "./parts.js";
import { ask, trouble, words } from "./server.js";

const HEIGHT = 28;
const CHUNK = 200;
const loaded = new WeakMap();

export function startRows() {
  setUp();
  document.addEventListener("holdfast:filled", (event) => {
    if (event.target.dataset?.part === "rows") setUp();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-jump]");
    if (button) jump(button.dataset.jump);
  });
}

function setUp() {
  const rows = document.querySelector("[data-rows].long");
  if (!rows || loaded.has(rows)) return;
  const state = { chunks: new Map(), timer: 0 };
  loaded.set(rows, state);
  const inner = rows.querySelector("[data-window]");
  inner.style.height = `${Number(rows.dataset.total) * HEIGHT}px`;
  place([...inner.children]);
  rows.addEventListener("scroll", () => schedule(rows, state), { passive: true });
  schedule(rows, state);
}

function place(rows) {
  for (const row of rows) {
    row.style.position = "absolute";
    row.style.left = "0";
    row.style.right = "0";
    row.style.top = `${Number(row.dataset.place) * HEIGHT}px`;
  }
}

function schedule(rows, state) {
  clearTimeout(state.timer);
  state.timer = setTimeout(() => load(rows, state), 30);
}

// Fetches the chunks around the place that is looked at, and drops the others; `fresh` fetches them anew.
async function load(rows, state, fresh = false) {
  const total = Number(rows.dataset.total);
  const top = Math.floor(rows.scrollTop / HEIGHT);
  const bottom = Math.ceil((rows.scrollTop + rows.clientHeight) / HEIGHT);
  const first = Math.floor(Math.max(0, top - 40) / CHUNK);
  const last = Math.floor(Math.min(total, bottom + 40) / CHUNK);
  for (const [n, chunk] of state.chunks) {
    if (n < first || n > last) {
      chunk.rows.forEach((row) => row.remove());
      state.chunks.delete(n);
    }
  }
  const wanted = Array.from({ length: last - first + 1 }, (_, n) => first + n);
  await Promise.all(wanted.filter((n) => fresh || !state.chunks.has(n)).map((n) => loadChunk(rows, state, n)));
}

async function loadChunk(rows, state, n) {
  const before = state.chunks.get(n) ?? { rows: [], text: "" };
  state.chunks.set(n, before);
  const answer = await ask(`${rows.closest("[data-part]").dataset.src}&from=${n * CHUNK}`);
  if (!answer.ok) {
    if (answer.status) trouble(rows, words(answer));
    if (!before.rows.length) state.chunks.delete(n);
    return;
  }
  trouble(rows, "");
  if (state.chunks.get(n) !== before || before.text === answer.text) return;
  const table = new DOMParser().parseFromString(answer.text, "text/html").querySelector("[data-rows]");
  if (!table) return;
  for (const name of ["total", "breaks"]) rows.dataset[name] = table.dataset[name];
  rows.setAttribute("aria-rowcount", table.dataset.total);
  const inner = rows.querySelector("[data-window]");
  inner.style.height = `${Number(table.dataset.total) * HEIGHT}px`;
  const found = [...table.querySelectorAll(".wrow")];
  place(found);
  const focused = inner.contains(document.activeElement) ? document.activeElement.closest(".wrow")?.dataset.place : undefined;
  const marked = inner.querySelector(".here")?.dataset.place;
  const has = new Set(found.map((row) => row.dataset.place));
  for (const old of [...inner.children]) if (has.has(old.dataset.place)) old.remove();
  inner.append(...found);
  for (const row of found) {
    if (row.dataset.place === marked) row.classList.add("here");
    if (row.dataset.place === focused) row.focus({ preventScroll: true });
  }
  state.chunks.set(n, { rows: found, text: answer.text });
  inner.dispatchEvent(new CustomEvent("holdfast:filled", { bubbles: true }));
}

export async function refreshRows() {
  const part = document.querySelector('[data-part="rows"]');
  if (!part) return;
  const rows = part.querySelector("[data-rows].long");
  if (!rows) {
    await fill(part, true);
    return;
  }
  const atEnd = rows.scrollTop + rows.clientHeight > rows.scrollHeight - 3 * HEIGHT;
  await load(rows, loaded.get(rows), true);
  if (atEnd) rows.scrollTop = rows.scrollHeight;
}

export function jump(where) {
  const rows = document.querySelector("[data-rows]");
  if (!rows) return;
  const total = Number(rows.dataset.total);
  const breaks = rows.dataset.breaks ? rows.dataset.breaks.split(",").map(Number) : [];
  const now = Number(rows.dataset.at ?? -1);
  let at = where === "last" ? total - 1 : 0;
  if (where === "break") at = breaks.find((one) => one > now) ?? breaks[0] ?? 0;
  rows.dataset.at = at;
  if (rows.classList.contains("long")) rows.scrollTop = Math.max(0, (at - 3) * HEIGHT);
  mark(rows, at, 40);
}

// The row may still be on its way.
function mark(rows, at, times) {
  const row = rows.querySelector(`.wrow[data-place="${at}"]`);
  if (!row) {
    if (times) setTimeout(() => mark(rows, at, times - 1), 50);
    return;
  }
  for (const one of rows.querySelectorAll(".here")) one.classList.remove("here");
  row.classList.add("here");
  row.focus({ preventScroll: true });
  if (!rows.classList.contains("long")) row.scrollIntoView({ block: "center" });
}
