// Follows what happens, and fetches the parts that it concerns. The browser rejoins by itself, with the id of
// the last event that it has seen, so that a page left open overnight is right in the morning.
import { fill } from "./parts.js";
import { refreshRows } from "./rows.js";
import { ask, trouble, words } from "./server.js";

const PAUSE_MS = 250;
const RETRY_MS = [1000, 2000, 5000, 10000];
let timer = 0;
let last = 0;
let isMissing = false;
let isWide = false;
let retries = 0;

export function startLive() {
  counts();
  if (document.body.dataset.live) connect();
  else say("on", "ready");
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

function address() {
  const { live, run, head } = document.body.dataset;
  return live === "run" ? `/live?run=${encodeURIComponent(run)}&after=${head}` : "/live";
}

function connect() {
  const source = new EventSource(address());
  source.addEventListener("open", () => {
    say("on", "live");
    trouble("live", "");
    if (isMissing) soon();
    isMissing = false;
  });
  source.addEventListener("error", () => {
    isMissing = isWide = true;
    say("off", "not connected");
    // The browser tries again by itself, unless the server has refused.
    if (source.readyState === EventSource.CLOSED) refused();
    else trouble("live", "The server does not answer. What you see may be old; the page goes on by itself when `holdfast ui` runs again.");
  });
  source.addEventListener("gone", (event) => {
    source.close();
    isMissing = isWide = true;
    const { problem, hint } = JSON.parse(event.data);
    lost([problem, hint].filter(Boolean).join(" · "));
  });
  source.addEventListener("changed", () => soon());
  source.addEventListener("status", () => { retries = 0; soon(); });
  source.addEventListener("event", (event) => {
    const line = JSON.parse(event.data);
    retries = 0;
    document.body.dataset.head = line.seq;
    soon(line.kind !== "stream.chunk");
  });
}

async function refused() {
  const leave = new AbortController();
  try {
    // An answer that is right goes on forever: its head is enough.
    const answer = await fetch(address(), { credentials: "same-origin", signal: leave.signal });
    if (!answer.ok) lost(words({ text: await answer.text(), isHtml: false }));
    else lost("");
  } catch {
    lost("The server does not answer. Is `holdfast ui` still running in its terminal?");
  }
  leave.abort();
}

function lost(told) {
  say("off", "not connected");
  if (told) trouble("live", told);
  setTimeout(connect, RETRY_MS[Math.min(retries, RETRY_MS.length - 1)]);
  retries += 1;
}

function say(state, told) {
  const dot = document.querySelector("[data-live-dot]");
  const word = document.querySelector("[data-live-word]");
  dot.classList.toggle("on", state === "on");
  dot.classList.toggle("off", state === "off");
  if (word.textContent !== told) word.textContent = told;
}

// The first of several events is shown at once, the others together a moment later.
function soon(wide = true) {
  isWide ||= wide;
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(0, last + PAUSE_MS - performance.now()));
}

export async function refresh() {
  last = performance.now();
  const wide = isWide;
  isWide = false;
  // A piece of an answer changes the conversation and nothing else.
  const parts = [...document.querySelectorAll(wide ? "[data-part]" : '[data-part="conversation"]')].filter((part) => part.dataset.part !== "rows" && !part.dataset.load);
  const whole = [...document.querySelectorAll("[data-refresh]")].map((part) => {
    const src = part.dataset.refresh;
    part.dataset.src = src.includes("part=1") ? src : `${src}${src.includes("?") ? "&" : "?"}part=1`;
    return part;
  });
  await Promise.all([wide ? refreshRows() : null, ...[...parts, ...whole].map((part) => fill(part, true))]);
  last = performance.now();
  if (wide) counts();
}

export function refreshAll() {
  isWide = true;
  return refresh();
}

async function counts() {
  const answer = await ask("/needs-count");
  if (!answer.ok) return;
  const { needs } = JSON.parse(answer.text);
  const badge = document.querySelector("[data-needs-count]");
  badge.textContent = needs;
  badge.hidden = !needs;
  document.title = document.title.replace(/^\(\d+\) /, "");
  if (needs) document.title = `(${needs}) ${document.title}`;
}
