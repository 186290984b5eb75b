// The components of a reward: move, remove; the source of samples; Tab in code.
(() => {
  "use strict";
  const list = document.getElementById("components");
  if (!list) return;

  list.addEventListener("click", (event) => {
    const part = event.target.closest("[data-component]");
    if (!part) return;
    if (event.target.closest("[data-component-remove]")) {
      const next = part.nextElementSibling || part.previousElementSibling;
      part.remove();
      (next || list).querySelector("input:not([type=hidden]), textarea")?.focus();
    } else if (event.target.closest("[data-component-up]") && part.previousElementSibling) {
      part.previousElementSibling.before(part);
      part.querySelector("[data-component-up]").focus();
    }
  });

  list.addEventListener("htmx:load", (event) => {
    if (event.target.matches?.("[data-component]")) {
      event.target.querySelector("input:not([type=hidden]), textarea, select")?.focus();
    }
  });

  // Tab indents in code; Escape, then Tab, leaves the field.
  let leaving = false;
  list.addEventListener("keydown", (event) => {
    if (!event.target.matches("textarea[data-code]")) return;
    if (event.key === "Escape") {
      leaving = true;
      return;
    }
    if (event.key === "Tab" && !event.shiftKey && !leaving) {
      event.preventDefault();
      event.target.setRangeText("    ", event.target.selectionStart, event.target.selectionEnd, "end");
    }
    leaving = false;
  });

  const tryForm = document.querySelector("[data-try]");
  const source = tryForm?.querySelector("select[name$=source]");
  const pasted = tryForm?.querySelector("[data-when-source]");
  function showSource() {
    if (source && pasted) pasted.hidden = source.value !== "";
  }
  source?.addEventListener("change", showSource);
  showSource();
})();
