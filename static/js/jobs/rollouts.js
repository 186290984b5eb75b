// The rollout inspector: keyboard, state in the address, and answers that come too late.

const PREFIX = "r.";
const NAMES = ["at", "sort", "only", "least", "most", "q", "in", "page"];
const place = document.getElementById("rollouts");
const base = place.dataset.url;

/** What the address of the page says of the inspector, as the query of its part. */
function fromAddress() {
  const given = new URL(location.href).searchParams;
  const query = new URLSearchParams();
  for (const name of NAMES) {
    const value = given.get(PREFIX + name);
    if (value) query.set(name, value);
  }
  return query;
}

function toAddress(query) {
  const url = new URL(location.href);
  for (const name of NAMES) {
    const value = query.get(name);
    if (value) url.searchParams.set(PREFIX + name, value);
    else url.searchParams.delete(PREFIX + name);
  }
  history.replaceState(history.state, "", url);
}

/** What the page asks for again while it follows the newest step. */
function remember(query) {
  const text = query.toString();
  place.dataset.url = text ? `${base}?${text}` : base;
}

// -- Answers: only the last one asked for is shown.

let asked = 0;
place.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target !== place) return;
  asked += 1;
  event.detail.xhr.rolloutNumber = asked;
});
place.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target === place && event.detail.xhr.rolloutNumber !== undefined && event.detail.xhr.rolloutNumber < asked) {
    event.detail.shouldSwap = false;
  }
});
document.body.addEventListener("htmx:beforeSwap", (event) => {
  // Searching keeps the caret where it is.
  if (event.detail.target !== place) return;
  const field = document.activeElement;
  place.dataset.caret = field?.id === "rollout-search" ? String(field.selectionStart) : "";
  place.dataset.typed = field?.id === "rollout-search" ? field.value : "";
});
place.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target !== place) return;
  const query = new URLSearchParams((event.detail.pathInfo?.finalRequestPath ?? "").split("?")[1] ?? "");
  for (const [name, value] of [...query]) if (!value || !NAMES.includes(name)) query.delete(name);
  remember(query);
  toAddress(query);
  if (place.dataset.caret) {
    const field = document.getElementById("rollout-search");
    field?.focus();
    if (field) field.value = place.dataset.typed;
    field?.setSelectionRange(Number(place.dataset.caret), Number(place.dataset.caret));
  }
});
place.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && event.detail.elt.hasAttribute?.("data-once")) event.detail.elt.remove();
});

// -- Keyboard: j and k go from sample to sample, the arrows from step to step.

document.addEventListener("keydown", (event) => {
  if (place.closest("[hidden]") || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) return;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const button = place.querySelector(`[data-step="${event.key === "ArrowLeft" ? "previous" : "following"}"]`);
    // Inside a text the arrows scroll.
    if (!button || event.target.closest("pre")) return;
    event.preventDefault();
    button.click();
  } else if (event.key === "j" || event.key === "k") {
    const samples = [...place.querySelectorAll("[data-sample]")];
    const at = samples.findIndex((sample) => sample.contains(document.activeElement));
    const next = samples[at === -1 ? 0 : at + (event.key === "j" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  } else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("rollout-search")?.focus();
  }
});

const begin = fromAddress();
if ([...begin].length) {
  remember(begin);
  if (begin.get("at")) {
    place.dataset.rolloutsFollow = "no";
    window.htmx.ajax("GET", place.dataset.url, { target: place, swap: "innerHTML" });
  }
}
