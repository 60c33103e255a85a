// Acts: a button opens a form that says what the act would do; the form posts it, and the page shows the outcome.
import { refreshAll } from "./live.js";
import { ask, show, words } from "./server.js";

export function startActs() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-act]");
    if (!button) return;
    const { act, ...given } = button.dataset;
    await openDialog(`/act/${act}?${new URLSearchParams({ ...given, part: "1" })}`);
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-act-form]");
    if (!form) return;
    event.preventDefault();
    await send(form, event.submitter);
  });
  document.addEventListener("change", async (event) => {
    const field = event.target.closest("[data-refills]");
    if (field) await refill(field.form, field.name);
  });
}

// What a field stands for: another point has another state and other messages, another message another text.
const STALE = { at: ["state", "inputs", "message", "text", "message_json", "edits_at"], message: ["text", "message_json"] };

// Fetch a form again for what was chosen in it. What was typed into its other fields stays.
async function refill(form, name) {
  const typed = [...form.elements].filter((one) => one.name !== name && !STALE[name]?.includes(one.name) && one.value !== one.defaultValue);
  const opened = [...form.querySelectorAll("details[open] > summary")].map((one) => one.textContent);
  const chosen = new URLSearchParams({ part: "1" });
  const isMessage = name === "message" || (name !== "at" && form.elements.message?.closest("details")?.open);
  for (const one of ["run", "at", "effects", ...(isMessage ? ["message"] : [])]) {
    if (form.elements[one]?.value) chosen.set(one, form.elements[one].value);
  }
  await openDialog(`/act/${form.action.split("/").pop()}?${chosen}`);
  const now = document.querySelector("#detail form[data-act-form]");
  if (!now) return;
  for (const { name: kept, value } of typed) if (now.elements[kept]) now.elements[kept].value = value;
  for (const one of now.querySelectorAll("details")) one.open ||= opened.includes(one.querySelector("summary").textContent);
  now.elements[name]?.focus();
}

export async function openDialog(url) {
  const dialog = document.getElementById("detail");
  const body = dialog.querySelector("[data-dialog-body]");
  if (!dialog.open) {
    body.textContent = "…";
    dialog.addEventListener("close", wayBack(dialog, document.activeElement), { once: true });
    dialog.showModal();
  }
  show(body, await ask(url));
  body.scrollTop = 0;
  (body.querySelector("details[open] textarea") ?? body.querySelector("input:not([type=hidden]), textarea, select, button") ?? dialog.querySelector("form[method=dialog] button")).focus();
}

// A dialog that closes gives the focus back, but not to what was filled anew behind it: then to what stands there now.
function wayBack(dialog, element) {
  const { place } = element.closest("[data-row]")?.dataset ?? {};
  const href = element.getAttribute("href");
  const there = place ? `[data-row][data-place="${place}"]` : element.id ? `#${CSS.escape(element.id)}` : href ? `a[href="${CSS.escape(href)}"]` : "";
  return () => {
    const isLost = document.activeElement === document.body || dialog.contains(document.activeElement);
    if (there && isLost) document.querySelector(there)?.focus({ preventScroll: true });
  };
}

async function send(form, submitter) {
  const button = submitter ?? form.querySelector("button");
  button.disabled = true;
  const answer = await ask(form.action, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(Object.fromEntries(new FormData(form))),
  });
  button.disabled = false;
  if (!answer.ok) {
    const told = form.querySelector("[data-reply]");
    told.textContent = words(answer);
    told.hidden = false;
    refreshAll();
    return;
  }
  const { told, go } = JSON.parse(answer.text);
  document.getElementById("detail").close();
  notice(told);
  if (go && go !== location.pathname) {
    sessionStorage.setItem("holdfast-notice", told);
    location.assign(go);
    return;
  }
  await refreshAll();
}

export function notice(text) {
  const box = document.getElementById("notice");
  box.textContent = text;
  box.classList.add("on");
  setTimeout(() => box.classList.remove("on"), 6000);
}

// What was done is told on the page that it leads to.
export function tellAfterwards() {
  const told = sessionStorage.getItem("holdfast-notice");
  sessionStorage.removeItem("holdfast-notice");
  if (told) notice(told);
}
