// The job form: the size dial sets its four fields, and changing one of them makes it the person's own.

import { startText } from "./form-text.js";

/** Bring a form to life; once when the page opens, and again for one that a text was put into. */
function start(form) {
  form.dataset.ready = "1";
  const dial = [...form.querySelectorAll('input[name="size"]')];
  const governed = new Map();
  for (const choice of dial) {
    for (const [path, value] of Object.entries(JSON.parse(choice.dataset.values || "{}"))) {
      const field = form.elements.namedItem(path);
      if (field) governed.set(field, [...(governed.get(field) ?? []), [choice, String(value)]]);
    }
  }

  function dialTurned() {
    for (const [field, settings] of governed) {
      const set = settings.find(([choice]) => choice.checked);
      if (set) field.value = set[1];
    }
  }

  function fieldChanged(field) {
    const match = dial.find((choice) => choice.dataset.values
      && [...governed].every(([other, settings]) => settings.some(([of, value]) => of === choice && other.value.trim() === value)));
    const custom = dial.find((choice) => !choice.dataset.values);
    (match ?? custom).checked = true;
    return field;
  }

  const losses = JSON.parse(form.dataset.losses);

  /** Fields that the chosen recipe does not read are out of the way; what was typed there is kept. */
  function recipeChosen() {
    const recipe = form.querySelector('input[name="recipe"]:checked')?.value;
    for (const part of form.querySelectorAll("[data-recipes]")) part.hidden = !part.dataset.recipes.split(" ").includes(recipe);
    for (const group of form.querySelectorAll(".fold-group")) group.hidden = !group.querySelector(".field:not([hidden])");
    for (const fold of form.querySelectorAll(".fold:has(.fold-group)")) fold.hidden = !fold.querySelector(".fold-group:not([hidden])");
    const loss = form.elements.namedItem("loss.name");
    const fitting = losses[recipe] ?? [];
    for (const option of loss.options) option.hidden = option.disabled = !fitting.includes(option.value);
    if (fitting.length && !fitting.includes(loss.value)) loss.value = fitting[0];
    loss.closest(".field").hidden = fitting.length < 2;
  }

  form.addEventListener("input", (event) => {
    if (event.target.name === "size") dialTurned();
    else if (governed.has(event.target)) fieldChanged(event.target);
    if (event.target.name === "recipe") recipeChosen();
  });

  // Once it is sent, the card has nothing more to ask; its answers would make the button look idle again.
  form.addEventListener("htmx:beforeRequest", (event) => { if (form.dataset.sent) event.preventDefault(); });
  form.addEventListener("htmx:afterRequest", (event) => { if (form.dataset.sent) event.stopPropagation(); });

  // A fold with an error inside is open, and the first error is in sight.
  const wrong = form.querySelector('[aria-invalid="true"]');
  if (wrong) {
    for (let fold = wrong.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    wrong.focus({ preventScroll: false });
  }

  recipeChosen();
}

start(document.getElementById("job-form"));
document.addEventListener("htmx:afterSwap", () => {
  const form = document.getElementById("job-form");
  if (form && !form.dataset.ready) start(form);
});
startText();
