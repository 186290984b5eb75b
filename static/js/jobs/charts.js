// The charts of a job: cards grouped by prefix, mounted only while they are near the screen.

import { X_AXES, curve } from "./curves.js";
import { number } from "./format.js";

const GROUPS = ["train", "eval", "reward", "reward_std", "system"];
const SLICE_MS = 24;
const TITLES = { train: "Training", eval: "Held-out", reward: "Reward parts", reward_std: "Reward parts, spread", system: "System", other: "Other" };
const FIRST = [
  "train/reward", "train/accuracy", "train/loss", "train/kl", "train/entropy", "train/completion_tokens",
  "eval/accuracy", "eval/reward", "eval/loss",
];

const NAMES = {
  kl: "KL to the base model",
  reward_std: "reward, spread",
  completion_tokens: "completion length (tokens)",
  completion_tokens_max: "longest completion (tokens)",
  prompt_tokens: "prompt length (tokens)",
  truncated: "cut completions (share)",
  clip_fraction: "clipped ratios (share)",
  grad_norm: "gradient norm",
  zero_variance_groups: "groups without a difference",
  logprob_mismatch: "sampler against trainer",
  pass_at_k: "solved at least once (share of prompts)",
  reward_shaped: "reward after penalties",
  reward_kept: "reward of what is imitated",
  kept: "completions imitated (share)",
  prompts_drawn: "prompts drawn for the batch",
  importance_capped: "importance weights at the cap (share)",
  margin: "margin of the better answer",
  teacher_kl: "divergence from the teacher",
  explained_variance: "reward foreseen by the critic (share)",
  mfu: "arithmetic used (share of the device's peak)",
};
// A line needs two points to be seen; few points are marked.
const FEW = 12;
const ENDINGS = [[/_per_s$/, " per second"], [/_s$/, " (s)"], [/_gb$/, " (GB)"]];

/** A metric's name as a title; what a person named themselves (parts of their reward) stays as it is. */
export function titleOf(key) {
  const group = groupOf(key);
  if (group === "other") return key;
  const name = key.slice(key.indexOf("/") + 1);
  if (group.startsWith("reward")) return name;
  if (name in NAMES) return NAMES[name];
  const [ending, words] = ENDINGS.find(([pattern]) => pattern.test(name)) ?? [/$/, ""];
  return name.replace(ending, words).replaceAll("_", " ");
}

/** Keys with `/` belong to the group before it. */
export function groupOf(key) {
  const prefix = key.split("/", 1)[0];
  return key.includes("/") && GROUPS.includes(prefix) ? prefix : "other";
}

/** The important ones first, the rest by name. */
export function byImportance(a, b) {
  const [i, j] = [FIRST.indexOf(a), FIRST.indexOf(b)];
  if (i >= 0 || j >= 0) return (i < 0 ? FIRST.length : i) - (j < 0 ? FIRST.length : j);
  return a < b ? -1 : 1;
}

/** What a person chose in the toolbar; kept in the URL, so that reload, back and share keep it. */
export class View {
  constructor(params = new URLSearchParams(location.search)) {
    this.x = params.get("x") in X_AXES ? params.get("x") : "step";
    const smoothing = Number(params.get("smooth"));
    this.smoothing = params.has("smooth") && smoothing >= 0 && smoothing < 1 ? smoothing : 0.6;
    this.log = params.get("log") === "1";
  }

  save() {
    const url = new URL(location.href);
    const set = (name, value, usual) => {
      if (value === usual) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    };
    set("x", this.x, "step");
    set("smooth", String(this.smoothing), "0.6");
    set("log", this.log ? "1" : "0", "0");
    history.replaceState(history.state, "", url);
  }
}

class Card {
  constructor(key, store, view, start) {
    Object.assign(this, { key, store, view, start });
    this.version = "";
    this.frame = "";
    this.ranges = {};
    this.element = document.createElement("section");
    this.element.className = "chart";
    this.element.dataset.key = key;
    this.title = document.createElement("h4");
    this.title.textContent = titleOf(key);
    this.title.title = key;
    this.value = document.createElement("span");
    this.value.className = "chart-value num";
    this.badge = document.createElement("span");
    this.badge.className = "tag chart-badge";
    this.badge.hidden = true;
    const head = document.createElement("header");
    head.append(this.title, this.badge, this.value);
    this.plot = document.createElement("div");
    this.plot.className = "chart-plot";
    this.plot.setAttribute("role", "img");
    this.element.append(head, this.plot);
  }

  get series() {
    return this.store.get(this.key);
  }

  /** What can be told without drawing. */
  label() {
    const last = this.series.last;
    const text = number(last?.value);
    if (this.value.textContent !== text) this.value.textContent = text;
    this.plot.setAttribute("aria-label", `${this.key}: ${text} at step ${last?.step ?? 0}, ${this.series.points.length} points`);
  }

  mount() {
    this.mounted = true;
  }

  unmount() {
    if (!this.mounted) return;
    this.mounted = false;
    if (!this.frame) return;
    this.ranges = rangesOf(this.plot, this.view);
    this.version = this.frame = "";
    window.Plotly.purge(this.plot);
  }

  /** Whether something changed since it was drawn. */
  get stale() {
    return this.mounted && this.version !== this.versionNow();
  }

  versionNow() {
    const { x, smoothing, log } = this.view;
    return `${this.series.version}|${x}|${smoothing}|${log}|${document.documentElement.dataset.bsTheme}`;
  }

  draw() {
    this.version = this.versionNow();
    const line = curve(this.series, { ...this.view, start: this.start() });
    this.tellGaps(line.notDrawn);
    const traces = this.traces(line);
    const look = this.version.slice(this.version.indexOf("|"));
    const frame = JSON.stringify([look, line.restarts, traces.map((trace) => trace.mode), ticks(line)]);
    if (frame === this.frame) {
      // Only the points changed: nothing else is touched, and it takes half the time.
      window.Plotly.restyle(this.plot, { x: traces.map((trace) => trace.x), y: traces.map((trace) => trace.y) });
      return;
    }
    this.frame = frame;
    window.Plotly.react(this.plot, traces, this.layout(line), {
      displayModeBar: false, responsive: true, doubleClick: "autosize", showTips: false,
    });
  }

  tellGaps(notDrawn) {
    const parts = [];
    if (this.series.nonFinite) parts.push(`${this.series.nonFinite} not finite`);
    if (notDrawn) parts.push(`${notDrawn} at or below 0`);
    this.badge.textContent = parts.join(", ");
    this.badge.title = "These points are gaps in the line.";
    this.badge.hidden = parts.length === 0;
  }

  traces(line) {
    const colour = token("--series-1");
    const x = X_AXES[this.view.x].title;
    const base = { type: "scatter", connectgaps: false, hoverinfo: "x+y", cliponaxis: true };
    const shown = line.smoothed ?? line.raw;
    const mode = line.raw.x.length <= FEW ? "lines+markers" : "lines";
    const drawn = { ...base, ...shown, mode, marker: { size: 4, color: colour }, line: { color: colour, width: 1.6 },
      name: line.smoothed ? "smoothed" : "value", hovertemplate: `%{y:.4~g}<br>${x} %{x:.6~g}<extra></extra>` };
    if (!line.smoothed) return [drawn];
    const raw = { ...base, ...line.raw, mode: "lines", opacity: 0.25, line: { color: colour, width: 1.4 }, name: "as measured",
      hovertemplate: "%{y:.4~g} as measured<extra></extra>" };
    return [raw, drawn];
  }

  layout(line) {
    const [ink, soft, rule] = [token("--ink"), token("--ink-soft"), token("--line")];
    const axis = { gridcolor: rule, linecolor: rule, zerolinecolor: rule, tickfont: { size: 10, color: soft } };
    const { x, log } = this.view;
    return {
      // While these stay the same, a live update leaves zoom and hidden lines alone.
      uirevision: this.key,
      xaxis: { ...axis, uirevision: x, showgrid: false, nticks: ticks(line), rangemode: x === "step" ? "normal" : "tozero", ...this.ranges.x,
        hoverformat: "" },
      yaxis: { ...axis, uirevision: String(log), type: log ? "log" : "linear", nticks: 5, ...this.ranges.y,
        exponentformat: "e", hoverformat: "" },
      margin: { l: 46, r: 8, t: 6, b: 22 },
      height: this.plot.clientHeight || 180,
      showlegend: false,
      hovermode: "x",
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: ink },
      hoverlabel: { bgcolor: token("--surface"), bordercolor: rule, font: { color: ink, size: 11 } },
      shapes: line.restarts.map((at) => ({
        type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: token("--recovering"), width: 1, dash: "dot" },
      })),
      annotations: line.restarts.map((at) => ({
        x: at, yref: "paper", y: 1, yanchor: "top", xanchor: "left", showarrow: false, text: "restart",
        font: { size: 9, color: token("--recovering") },
      })),
    };
  }
}

/** No more ticks than points: there is nothing between two steps. */
function ticks(line) {
  return Math.max(2, Math.min(6, line.raw.x.length));
}

function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The zoom a person made, to be kept over a card's way out of sight and back. */
function rangesOf(plot, view) {
  const layout = plot.layout ?? {};
  const kept = {};
  for (const [name, axis] of [["x", layout.xaxis], ["y", layout.yaxis]]) {
    if (axis && axis.autorange === false) kept[name] = { range: [...axis.range], autorange: false };
  }
  return { ...kept, of: `${view.x}|${view.log}` };
}

export class Charts {
  /** `start()` gives the unix time at which the job began to run. */
  constructor(root, store, view, start) {
    Object.assign(this, { root, store, view, start });
    this.cards = new Map();
    this.groups = new Map();
    this.near = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "60px 0px" });
    new MutationObserver(() => this.drawAll()).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  }

  seen(entries) {
    for (const entry of entries) {
      const card = this.cards.get(entry.target.dataset.key);
      if (entry.isIntersecting) card.mount();
      else card.unmount();
    }
    this.drawAll();
  }

  /** New points of these metrics have come. */
  update(keys) {
    for (const key of keys) {
      if (!this.cards.has(key)) this.addCard(key);
    }
    for (const key of keys) this.cards.get(key).label();
    this.drawAll();
  }

  /** Draw what is stale, in the order of the page and a few milliseconds a frame: the page answers meanwhile. */
  drawAll() {
    if (this.frame || document.hidden) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const until = performance.now() + SLICE_MS;
      for (const element of this.root.querySelectorAll(".chart")) {
        const card = this.cards.get(element.dataset.key);
        if (!card.stale) continue;
        card.draw();
        if (performance.now() > until) {
          this.drawAll();
          return;
        }
      }
    });
  }

  /** The toolbar changed: zooms belong to the axes they were made on. */
  viewChanged() {
    for (const card of this.cards.values()) {
      if (card.ranges.of !== `${this.view.x}|${this.view.log}`) card.ranges = {};
    }
    this.drawAll();
  }

  addCard(key) {
    const card = new Card(key, this.store, this.view, this.start);
    this.cards.set(key, card);
    const name = groupOf(key);
    if (!this.groups.has(name)) this.addGroup(name);
    const grid = this.groups.get(name);
    const after = [...grid.children].find((other) => byImportance(key, other.dataset.key) < 0);
    grid.insertBefore(card.element, after ?? null);
    this.near.observe(card.element);
  }

  addGroup(name) {
    const section = document.createElement("details");
    section.className = "chart-group";
    section.dataset.group = name;
    section.open = true;
    const title = document.createElement("summary");
    const heading = document.createElement("h3");
    heading.textContent = TITLES[name];
    title.append(heading);
    const grid = document.createElement("div");
    grid.className = "chart-grid";
    section.append(title, grid);
    const order = [...GROUPS, "other"];
    const after = [...this.root.children].find((other) => order.indexOf(other.dataset.group) > order.indexOf(name));
    this.root.insertBefore(section, after ?? null);
    this.groups.set(name, grid);
  }
}
