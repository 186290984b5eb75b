// One chart: a card that is drawn only while it is near the screen.
//
// What it shows comes from a source: {key, version, summary(), lines(view), marks(view), want()}. A line is
// {id, name, colour, dash, raw, smoothed, nonFinite, notDrawn}; colours are names of tokens.

import { X_AXES, rangeOf } from "./curves.js";
import { number } from "./format.js";
import { titleOf } from "./names.js";

// A line needs two points to be seen; few points are marked.
const FEW = 12;
const MARK_LOOKS = {
  restarts: { token: "--recovering", dash: "dot", height: 1, text: "restart" },
  checkpoints: { token: "--edge", dash: "solid", height: 0.07, text: "" },
  best: { token: "--succeeded", dash: "dash", height: 1, text: "best" },
};

export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Plotly reads some markup in names; names are what people typed. */
function plain(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

export class Card {
  constructor(source, view, actions) {
    Object.assign(this, { source, view, actions, key: source.key });
    this.version = "";
    this.frame = "";
    this.kept = {};
    this.element = document.createElement("section");
    this.element.className = "chart";
    this.element.dataset.key = this.key;
    this.plot = document.createElement("div");
    this.plot.className = "chart-plot";
    this.plot.setAttribute("role", "img");
    this.element.append(this.head(), this.plot);
  }

  head() {
    this.title = document.createElement("h4");
    this.title.textContent = titleOf(this.key);
    this.title.title = this.key;
    this.value = document.createElement("span");
    this.value.className = "chart-value num";
    this.badge = document.createElement("span");
    this.badge.className = "tag chart-badge";
    this.badge.hidden = true;
    const more = document.createElement("button");
    more.type = "button";
    more.className = "chart-more";
    more.textContent = "⋯";
    more.setAttribute("aria-label", `More for ${this.key}`);
    more.setAttribute("aria-haspopup", "true");
    more.setAttribute("aria-expanded", "false");
    more.addEventListener("click", () => this.actions.menu(this, more));
    const head = document.createElement("header");
    head.append(this.title, this.badge, this.value, more);
    return head;
  }

  /** What can be told without drawing. */
  label() {
    const { text, spoken } = this.source.summary();
    if (this.value.textContent !== text) this.value.textContent = text;
    this.plot.setAttribute("aria-label", spoken);
  }

  mount() {
    this.mounted = true;
    this.source.want?.();
  }

  unmount() {
    if (!this.mounted) return;
    this.mounted = false;
    if (!this.frame) return;
    this.keepRange();
    this.version = this.frame = "";
    window.Plotly.purge(this.plot);
  }

  /** The y-range a person chose stays over a card's way out of sight and back; the x-range is everybody's. */
  keepRange() {
    const axis = this.plot.layout?.yaxis;
    const chosen = axis && axis.autorange === false && String(axis.range) !== String(this.ownRange);
    this.kept = chosen ? { range: [...axis.range], autorange: false, of: this.scale } : {};
  }

  get scale() {
    return `${this.view.log}|${this.view.clip}`;
  }

  /** Whether something changed since it was drawn. */
  get stale() {
    return this.mounted && !this.element.hidden && this.version !== this.versionNow();
  }

  versionNow() {
    return `${this.source.version}|${this.view.look}|${document.documentElement.dataset.bsTheme}|${this.plot.clientHeight}`;
  }

  draw() {
    this.version = this.versionNow();
    const lines = this.source.lines(this.view);
    this.lines = lines;
    this.tellGaps(lines);
    const traces = lines.flatMap((line) => this.traces(line, lines.length));
    const ownRange = rangeOf(traces.map((trace) => trace.y), this.view);
    const marks = this.source.marks?.(this.view) ?? [];
    const look = this.version.slice(this.version.indexOf("|"));
    const ticks = Math.max(2, Math.min(6, ...lines.map((line) => line.raw.x.length)));
    const frame = JSON.stringify([look, marks, traces.map((trace) => [trace.name, trace.mode]), ticks, ownRange]);
    if (frame === this.frame) {
      // Only the points changed: nothing else is touched, and it takes half the time.
      window.Plotly.restyle(this.plot, { x: traces.map((trace) => trace.x), y: traces.map((trace) => trace.y) });
      return;
    }
    this.frame = frame;
    this.ownRange = ownRange;
    const first = !this.plot.on;
    window.Plotly.react(this.plot, traces, this.layout(lines, marks, ticks, ownRange), {
      displayModeBar: false, responsive: true, doubleClick: "autosize", showTips: false,
    });
    if (first || !this.listens) this.listen();
  }

  tellGaps(lines) {
    const sum = (name) => lines.reduce((total, line) => total + line[name], 0);
    const [nonFinite, notDrawn] = [sum("nonFinite"), sum("notDrawn")];
    const parts = [];
    if (nonFinite) parts.push(`${nonFinite} not finite`);
    if (notDrawn) parts.push(`${notDrawn} at or below 0`);
    this.badge.textContent = parts.join(", ");
    this.badge.title = "These points are gaps in the line.";
    this.badge.hidden = parts.length === 0;
  }

  traces(line, count) {
    const colour = token(line.colour);
    const x = X_AXES[this.view.x].title;
    const name = plain(line.name);
    const base = { type: "scatter", connectgaps: false, cliponaxis: true, name };
    const shown = line.smoothed ?? line.raw;
    const mode = line.raw.x.length <= FEW ? "lines+markers" : "lines";
    const who = count > 1 ? "%{fullData.name}<br>" : "";
    const drawn = {
      ...base, ...shown, mode, marker: { size: 4, color: colour }, line: { color: colour, width: 1.6, dash: line.dash },
      hovertemplate: `${who}%{y:.4~g}<br>${x} %{x:.6~g}<extra></extra>`,
    };
    if (!line.smoothed) return [drawn];
    const raw = {
      ...base, ...line.raw, mode: "lines", opacity: 0.25, line: { color: colour, width: 1.4 },
      hovertemplate: "%{y:.4~g} as measured<extra></extra>",
    };
    // Many original lines at once hide what they stand for: hovering one finds the smoothed lines only.
    if (count > 1) raw.hoverinfo = "skip";
    return [raw, drawn];
  }

  layout(lines, marks, ticks, ownRange) {
    const [ink, soft, rule] = [token("--ink"), token("--ink-soft"), token("--line")];
    const axis = { gridcolor: rule, linecolor: rule, zerolinecolor: rule, tickfont: { size: 10, color: soft }, hoverformat: "" };
    const { x, log, logx, zoom } = this.view;
    const range = zoom && { range: logx ? zoom.map((value) => Math.log10(Math.max(value, 1e-9))) : [...zoom], autorange: false };
    const y = this.kept.of === this.scale ? { range: this.kept.range, autorange: false }
      : ownRange ? { range: ownRange, autorange: false } : { autorange: true };
    return {
      // While these stay the same, a live update leaves zoom and hidden lines alone.
      uirevision: this.key,
      xaxis: {
        ...axis, uirevision: `${x}|${logx}|${zoom}`, type: logx ? "log" : "linear", showgrid: false, nticks: ticks,
        rangemode: x === "step" || logx ? "normal" : "tozero", ...(range ?? { autorange: true }),
      },
      yaxis: { ...axis, uirevision: this.scale, type: log ? "log" : "linear", nticks: 5, exponentformat: "e", ...y },
      margin: { l: 46, r: 8, t: 6, b: 22 },
      height: this.plot.clientHeight || 180,
      showlegend: false,
      hovermode: lines.length > 1 ? "closest" : "x",
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: ink },
      hoverlabel: { bgcolor: token("--surface"), bordercolor: rule, font: { color: ink, size: 11 } },
      shapes: marks.map(({ kind, x: at }) => ({
        type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: MARK_LOOKS[kind].height,
        line: { color: token(MARK_LOOKS[kind].token), width: kind === "checkpoints" ? 3 : 1, dash: MARK_LOOKS[kind].dash },
      })),
      annotations: marks.filter(({ kind }) => MARK_LOOKS[kind].text).map(({ kind, x: at }) => ({
        x: logx ? Math.log10(at) : at, yref: "paper", y: kind === "best" ? 0.9 : 1, yanchor: "top", xanchor: "left",
        showarrow: false, text: MARK_LOOKS[kind].text, font: { size: 9, color: token(MARK_LOOKS[kind].token) },
      })),
    };
  }

  listen() {
    this.listens = true;
    this.plot.on("plotly_hover", (event) => this.actions.hover(event.points[0].x));
    this.plot.on("plotly_unhover", () => this.actions.hover(null));
    this.plot.on("plotly_relayout", (change) => {
      const ends = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (ends.every((end) => end !== undefined)) this.actions.zoom(this.view.logx ? ends.map((end) => 10 ** end) : ends);
      else if (change["xaxis.autorange"]) this.actions.zoom(null);
    });
  }

  /** The line under which all charts are read together; null: nobody points at anything. */
  point(x) {
    if (!this.frame) return;
    const axis = this.plot._fullLayout?.xaxis;
    if (x === null || !axis) {
      this.cross?.remove();
      this.cross = null;
      this.label();
      return;
    }
    if (!this.cross?.isConnected) {
      this.cross = document.createElement("div");
      this.cross.className = "chart-cross";
      this.plot.append(this.cross);
    }
    const at = axis._offset + axis.d2p(x);
    this.cross.hidden = !(at >= axis._offset && at <= axis._offset + axis._length);
    this.cross.style.left = `${at}px`;
    if (this.lines.length === 1) this.value.textContent = number(nearest(this.lines[0].smoothed ?? this.lines[0].raw, x));
  }
}

function nearest({ x: xs, y: ys }, x) {
  let best = null;
  let gap = Infinity;
  for (let index = 0; index < xs.length; index += 1) {
    if (ys[index] === null || Math.abs(xs[index] - x) >= gap) continue;
    gap = Math.abs(xs[index] - x);
    best = ys[index];
  }
  return best;
}
