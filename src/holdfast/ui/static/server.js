// Asks the server, and tells what is wrong with it: at the top of the page, until it is right again.
const troubles = new Map();

// Never throws: a server that is gone is an answer, too.
export async function ask(url, options = {}) {
  try {
    const answer = await fetch(url, { credentials: "same-origin", ...options });
    const kind = answer.headers.get("content-type") ?? "";
    return { ok: answer.ok, status: answer.status, isHtml: kind.startsWith("text/html"), text: await answer.text() };
  } catch {
    return { ok: false, status: 0, isHtml: false, text: "The server does not answer. Is `holdfast ui` still running in its terminal?" };
  }
}

// What the server answered, as elements: markup is only what its own templates made.
export function show(box, answer) {
  if (answer.isHtml) {
    box.innerHTML = answer.text;
  } else {
    const told = document.createElement("p");
    told.className = "problem";
    told.setAttribute("role", "alert");
    told.textContent = words(answer);
    box.replaceChildren(told);
  }
  box.dispatchEvent(new CustomEvent("holdfast:filled", { bubbles: true }));
}

// A refusal in words, whether it came as a page, as JSON or as plain text.
export function words({ text, isHtml }) {
  if (isHtml) {
    const made = new DOMParser().parseFromString(text, "text/html");
    return [...made.querySelectorAll(".problem p")].map((one) => one.textContent.trim()).join(" · ") || made.body.textContent.trim();
  }
  try {
    const { problem, hint } = JSON.parse(text);
    if (problem) return [problem, hint].filter(Boolean).join(" · ");
  } catch {
    // Plain text.
  }
  return text.trim();
}

export function trouble(about, text) {
  if (text) troubles.set(about, text);
  else troubles.delete(about);
  const box = document.getElementById("trouble");
  const told = [...new Set(troubles.values())][0] ?? "";
  if (box.textContent !== told) box.textContent = told;
  box.hidden = !told;
}
