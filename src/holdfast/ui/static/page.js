// Starts what a page needs: times in the reader's zone, parts that load by themselves, live events, keys, acts.
import { openDialog, startActs, tellAfterwards } from "./acts.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { fill, startParts } from "./parts.js";
import { startRows } from "./rows.js";

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) time.textContent = at.toLocaleTimeString([], { hour12: false });
  }
}

document.addEventListener("holdfast:filled", (event) => localTimes(event.target));
localTimes(document);
startParts();
startRows();
startKeys();
startActs();
startLive();
tellAfterwards();

// A link that shows details in a dialog, or fills a part, stays an ordinary link for a new tab.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-detail], a[data-fill]") ?? event.target.closest(".wrow")?.querySelector("a.open");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  if (link.dataset.fill) {
    const part = document.querySelector(`[data-part="${link.dataset.fill}"]`);
    part.dataset.src = link.getAttribute("href");
    await fill(part);
  } else {
    await openDialog(link.getAttribute("href"));
  }
});

// Two points of a lineage, one after the other, are compared.
let picked = "";
document.addEventListener("click", (event) => {
  const dot = event.target.closest("[data-pick]");
  if (!dot || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const { pick } = dot.dataset;
  if (picked && picked !== pick) {
    location.assign(`/diff?a=${encodeURIComponent(picked)}&b=${encodeURIComponent(pick)}`);
    return;
  }
  picked = picked === pick ? "" : pick;
  for (const one of document.querySelectorAll("[data-pick]")) one.classList.toggle("picked", one.dataset.pick === picked);
  document.querySelector("[data-pick-words]").textContent = picked ? `${dot.getAttribute("aria-label")}: choose the point to compare it with` : "choose two points to compare them";
});
