// Runs before the first paint: which colours, when the person left it to the system.
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function apply() {
    const wanted = root.dataset.theme || "auto";
    root.dataset.bsTheme = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
  }

  apply();
  dark.addEventListener("change", apply);
  window.tuneyard = { applyTheme: apply };
})();
