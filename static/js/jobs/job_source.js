// What a chart of the job page shows: one metric of the job, from the points the page has.

import { curve, placeOf } from "./curves.js";
import { number } from "./format.js";

// The first of these that the job has says which evaluation was the best, and whether more is better.
const EVALUATIONS = [["eval/accuracy", 1], ["eval/reward", 1], ["eval/loss", -1]];

export class JobSource {
  /** `page` has `store`, `start()` and `checkpoints`, the steps of which there are some. */
  constructor(key, page) {
    Object.assign(this, { key, page });
  }

  get series() {
    return this.page.store.get(this.key);
  }

  get version() {
    return `${this.series.version}:${this.page.checkpoints}:${bestStep(this.page.store) ?? ""}`;
  }

  summary() {
    const { last, points } = this.series;
    const text = number(last?.value);
    return { text, spoken: `${this.key}: ${text} at step ${last?.step ?? 0}, ${points.length} points` };
  }

  lines(view) {
    const { nonFinite } = this.series;
    const drawn = curve(this.series, view, this.page.start());
    this.restarts = drawn.restarts;
    return [{ id: this.key, name: this.key, colour: "--series-1", dash: "solid", nonFinite, ...drawn }];
  }

  marks(view) {
    const at = (step) => placeOf(this.series, step, view.x, this.page.start());
    const found = [];
    const add = (kind, x) => {
      if (view.marks.has(kind) && x !== null && !(view.logx && x <= 0)) found.push({ kind, x });
    };
    for (const x of this.restarts) add("restarts", x);
    for (const step of this.page.checkpoints) add("checkpoints", at(step));
    const best = bestStep(this.page.store);
    if (best !== null) add("best", at(best));
    return found;
  }
}

/** The step of the best evaluation, the first where several are; null without any. */
export function bestStep(store) {
  for (const [key, sign] of EVALUATIONS) {
    const points = (store.get(key)?.points ?? []).filter((point) => Number.isFinite(point.value));
    if (points.length < 2) continue;
    return points.reduce((best, point) => (sign * point.value > sign * best.value ? point : best)).step;
  }
  return null;
}
