// Parallel axes: one line per run through the parameters in which the runs differ, and a metric at the end.

import { number } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const [HEIGHT, TOP, BOTTOM, SIDE] = [260, 34, 20, 70];
const MOST_AXES = 8;

function make(name, attributes, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** Where a value lies on its axis, 0 (bottom) to 1. Spans of factors, such as learning rates, are laid out as such. */
export function scaleOf(values) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const log = low > 0 && high / low >= 20;
  const of = log ? Math.log : (value) => value;
  const span = of(high) - of(low);
  return { low, high, log, at: (value) => (span ? (of(value) - of(low)) / span : 0.5) };
}

export class Parallel {
  constructor(root, page) {
    Object.assign(this, { root, page });
    this.select = root.querySelector("select");
    this.place = root.querySelector("[data-parallel]");
    this.told = root.querySelector("[data-parallel-told]");
    this.select.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.place);
    this.draw();
  }

  axes() {
    const runs = this.page.config.runs;
    const best = this.page.best(this.select.value);
    return [
      ...this.page.config.parameters.slice(0, MOST_AXES),
      { path: this.select.value, values: runs.map((run) => best.get(run.id) ?? null) },
    ].filter((axis) => axis.values.some((value) => value !== null));
  }

  draw() {
    const width = this.place.clientWidth;
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.run : "";
    if (!width) return;
    const axes = this.axes();
    const space = axes.length > 1 ? (width - 2 * SIDE) / (axes.length - 1) : 0;
    const drawing = make("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "group", "aria-label": "Runs by their parameters" });
    const scales = axes.map((axis) => scaleOf(axis.values));
    axes.forEach((axis, index) => drawing.append(...this.axis(axis, scales[index], SIDE + index * space, space || width)));
    this.page.config.runs.forEach((run, at) => drawing.append(...this.line(run, at, axes, scales, space)));
    this.place.replaceChildren(drawing);
    if (focused) this.place.querySelector(`[data-run="${focused}"]`)?.focus();
  }

  axis(axis, scale, x, space) {
    const most = Math.max(6, Math.floor(Math.min(space, 2 * SIDE) / 7));
    const short = axis.path.length > most ? `…${axis.path.slice(1 - most)}` : axis.path;
    const title = make("text", { x, y: 12, "text-anchor": "middle", class: "parallel-title" }, short);
    title.append(make("title", {}, axis.path));
    return [
      make("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM, class: "parallel-axis" }),
      title,
      make("text", { x, y: TOP - 6, "text-anchor": "middle", class: "parallel-end" }, number(scale.high)),
      make("text", { x, y: HEIGHT - 4, "text-anchor": "middle", class: "parallel-end" }, `${number(scale.low)}${scale.log ? " (log)" : ""}`),
    ];
  }

  line(run, at, axes, scales, space) {
    const points = axes.map((axis, index) => axis.values[at] === null ? null
      : [SIDE + index * space, HEIGHT - BOTTOM - scales[index].at(axis.values[at]) * (HEIGHT - BOTTOM - TOP)]);
    const drawn = points.filter((point) => point !== null);
    if (drawn.length < 2) return [];
    const words = axes.map((axis) => `${axis.path} ${number(axis.values[at])}`).join(", ");
    const label = `${run.name} (${run.short}): ${words}`;
    const group = make("g", { class: "parallel-run", tabindex: "0", role: "img", "aria-label": label, "data-run": run.id, style: `--run: var(${run.colour})` });
    const path = drawn.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    group.append(make("polyline", { points: path, class: "parallel-touch" }), make("polyline", { points: path, "data-dash": run.dash }));
    for (const [cx, cy] of drawn) group.append(make("circle", { cx, cy, r: 3 }));
    for (const name of ["focus", "pointerenter"]) group.addEventListener(name, () => { this.told.textContent = label; });
    return [group];
  }
}
