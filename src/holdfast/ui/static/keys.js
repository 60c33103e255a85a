// The keys of the page. A key does nothing while something is typed, or with Ctrl, Alt or Meta.
import { jump } from "./rows.js";

export function startKeys() {
  document.querySelector("[data-keys-help]").addEventListener("click", () => document.getElementById("keys").showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=range]), textarea, select")) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && !event.target.matches("[data-row]")) return;
    const action = ACTIONS[event.key];
    if (action) {
      event.preventDefault();
      action();
      return;
    }
    document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`)?.click();
  });
  if (location.hash === "#search") search()?.focus();
}

const search = () => document.querySelector("[data-search]");

const ACTIONS = {
  "?": () => document.getElementById("keys").showModal(),
  "/": () => {
    if (search()) search().focus();
    else location.assign("/runs#search");
  },
  Enter: () => document.activeElement.closest("[data-row]")?.querySelector("a")?.click(),
  j: () => move(1),
  k: () => move(-1),
  b: () => jump("break"),
  g: () => jump("first"),
  G: () => jump("last"),
  "[": () => scrub(-1),
  "]": () => scrub(1),
};

function move(by) {
  const rows = [...document.querySelectorAll("[data-row]")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  if (!rows.length) return;
  // A part that was filled anew has kept the focus, and not the mark.
  const focused = rows.findIndex((row) => row.contains(document.activeElement));
  const here = focused >= 0 ? focused : rows.findIndex((row) => row.classList.contains("here"));
  stand(rows[Math.min(rows.length - 1, Math.max(0, here + by))]);
}

export function stand(row) {
  for (const one of document.querySelectorAll(".here")) one.classList.remove("here");
  row.classList.add("here");
  (row.matches("a, [tabindex]") ? row : row.querySelector("a") ?? row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function scrub(by) {
  const range = document.querySelector("[data-scrubber]");
  if (!range) return;
  range.value = Number(range.value) + by;
  range.dispatchEvent(new Event("input", { bubbles: true }));
}
