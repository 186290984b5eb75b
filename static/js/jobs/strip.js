// The line of figures above the charts: what matters most, now, and which way it goes.

import { trend } from "./curves.js";
import { number, percent } from "./format.js";

// Each figure takes the first of its metrics that the job has.
const FIGURES = [
  { label: "reward", keys: ["train/reward"] },
  { label: "accuracy", keys: ["eval/accuracy", "train/accuracy"], write: (value) => percent(value, 1) },
  { label: "loss", keys: ["train/loss", "eval/loss"] },
  { label: "KL", keys: ["train/kl"] },
  { label: "entropy", keys: ["train/entropy"] },
  { label: "tokens/s", keys: ["system/sample_tokens_per_s", "system/train_tokens_per_s"] },
  { label: "s per step", keys: ["system/step_s"] },
];
const ARROWS = { 1: ["▲", "rising"], [-1]: ["▼", "falling"], 0: ["", ""] };

export class Strip {
  constructor(root, store) {
    this.root = root;
    this.store = store;
    this.shown = new Map();
  }

  update() {
    for (const figure of FIGURES) {
      const key = figure.keys.find((name) => this.store.get(name)?.points.length);
      if (key) this.show(figure, this.store.get(key), key);
    }
    this.root.hidden = this.shown.size === 0;
  }

  show(figure, series, key) {
    let parts = this.shown.get(figure.label);
    if (!parts) {
      const place = document.createElement("div");
      const [term, value, arrow] = ["dt", "dd", "span"].map((tag) => document.createElement(tag));
      term.textContent = figure.label;
      arrow.className = "trend";
      const text = document.createTextNode("");
      value.append(text, arrow);
      place.append(term, value);
      parts = { place, text, arrow, order: FIGURES.indexOf(figure) };
      this.shown.set(figure.label, parts);
      const after = [...this.shown.values()].filter((other) => other.order > parts.order && other.place.isConnected)
        .sort((a, b) => a.order - b.order)[0];
      this.root.insertBefore(place, after?.place ?? null);
    }
    parts.place.title = `${key}, step ${series.last.step}`;
    const value = series.last.value;
    const text = typeof value === "number" ? (figure.write ?? number)(value) : number(value);
    if (parts.text.data !== text) parts.text.data = text;
    const [sign, word] = ARROWS[trend(series)];
    parts.arrow.textContent = sign ? ` ${sign}` : "";
    parts.arrow.title = word;
  }
}
