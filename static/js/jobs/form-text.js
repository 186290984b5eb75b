// The task as text: two tabs over one task, files in and out, and the way to the line that is wrong.

const LARGEST = 400_000;

export function startText() {
  const tabs = document.querySelector("[data-form-tabs]");
  const panels = { "tab-form": document.getElementById("as-form"), "tab-text": document.getElementById("as-text") };
  const buttons = [...tabs.querySelectorAll('[role="tab"]')];
  tabs.hidden = false;

  function open(chosen, { write = true, focus = false } = {}) {
    for (const button of buttons) {
      const on = button === chosen;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
      panels[button.id].hidden = !on;
    }
    if (focus) chosen.focus();
    // The text is written anew from the form each time, unless it was changed and not applied yet.
    if (write && chosen.id === "tab-text" && !panels["tab-text"].dataset.changed) chosen.dispatchEvent(new CustomEvent("tuneyard:show"));
  }

  open(buttons.find((button) => button.getAttribute("aria-selected") === "true"), { write: false });
  tabs.addEventListener("click", (event) => {
    const button = event.target.closest('[role="tab"]');
    if (button && button.getAttribute("aria-selected") !== "true") open(button);
  });
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = buttons.indexOf(document.activeElement);
    open(buttons[(at + step + buttons.length) % buttons.length], { focus: true });
  });
  const panel = panels["tab-text"];
  document.body.addEventListener("tuneyard:applied", () => {
    delete panel.dataset.changed;
    document.getElementById("text-errors")?.replaceChildren();
    open(buttons[0], { focus: true });
  });
  panel.addEventListener("input", (event) => { if (event.target.matches("textarea")) panel.dataset.changed = "1"; });
  panel.addEventListener("click", (event) => {
    const line = event.target.closest("[data-line]");
    if (line) {
      event.preventDefault();
      showLine(panel.querySelector("textarea"), Number(line.dataset.line));
    }
    const download = event.target.closest("[data-text-download]");
    if (download) {
      const file = document.getElementById("text-file-form");
      file.elements.namedItem("text").value = panel.querySelector("textarea").value;
      file.elements.namedItem("as").value = download.dataset.textDownload;
      file.submit();
    }
  });
  panel.addEventListener("change", async (event) => {
    if (!event.target.matches("[data-text-file]")) return;
    const file = event.target.files[0];
    event.target.value = "";
    if (!file) return;
    if (file.size > LARGEST) {
      window.tuneyard.notify("This file is too large for a task.");
      return;
    }
    panel.querySelector("textarea").value = await file.text();
    panel.dataset.changed = "1";
    panel.querySelector("textarea").focus();
  });
}

/** Select a line (from 1) and bring it into sight. */
function showLine(area, line) {
  const lines = area.value.split("\n");
  const begin = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
  area.focus();
  area.setSelectionRange(begin, begin + (lines[line - 1] ?? "").length);
  area.scrollTop = (line - 3) * (area.scrollHeight / lines.length);
}
