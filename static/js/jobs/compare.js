// The comparison: one chart per metric with a line for each run, a table that sorts, and parallel axes.

import { Charts } from "./charts.js";
import { line } from "./curves.js";
import { number } from "./format.js";
import { backOff } from "./live.js";
import { Parallel } from "./parallel.js";
import { View, bindToolbar } from "./view.js";

const POLL_MS = 5000;
const MINUTES = new Set(["wall", "active"]);

/** What a chart shows of one metric: a line for each run that has it, thinned by the server. */
class RunsSource {
  constructor(key, page) {
    Object.assign(this, { key, page });
    this.found = null;
    this.axis = "";
    this.tag = "";
    this.failures = 0;
  }

  get version() {
    return `${this.tag}:${this.axis}`;
  }

  summary() {
    const count = this.found?.length ?? 0;
    const text = this.found === null ? "" : `${count} ${count === 1 ? "run" : "runs"}`;
    const values = (this.found ?? []).map((run) => {
      const { name, short } = this.page.run(run.id);
      return `${name} (${short}) ${number(run.y.findLast((value) => value !== null))}`;
    });
    return { text, spoken: `${this.key}: ${values.join(", ") || "loading"}` };
  }

  lines(view) {
    if (this.found === null || this.axis !== view.x) return [];
    const divisor = MINUTES.has(view.x) ? 60 : 1;
    return this.found.map((found) => {
      const { name, short, colour, dash } = this.page.run(found.id);
      const drawn = line(found.x.map((x) => x / divisor), found.y, view);
      return { id: found.id, name: `${name} · ${short}`, colour, dash, nonFinite: found.gaps, ...drawn };
    });
  }

  /** The card is in sight: load what it lacks. With `again` also what may have changed. */
  want(again = false) {
    const axis = this.page.view.x;
    const due = this.axis !== axis || this.found === null || again;
    if (!due || this.loading === axis || this.refused || performance.now() < (this.notBefore ?? 0)) return;
    this.loading = axis;
    this.load(axis).finally(() => {
      this.loading = "";
      if (this.page.view.x !== axis) this.want();
    });
  }

  async load(axis) {
    const headers = this.tag && this.axis === axis ? { "If-None-Match": this.tag } : {};
    try {
      const address = `${this.page.config.lines}&${new URLSearchParams({ key: this.key, x: axis })}`;
      const answer = await fetch(address, { headers, cache: "no-store", redirect: "manual" });
      this.refused = answer.type === "opaqueredirect" || (answer.status >= 400 && answer.status < 500 && answer.status !== 429);
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        const body = await answer.json();
        this.found = body.lines;
        this.page.setActive(body.active);
        this.axis = axis;
        this.tag = answer.headers.get("ETag") ?? String(performance.now());
      }
      this.failures = 0;
    } catch {
      this.notBefore = performance.now() + backOff(this.failures);
      this.failures += 1;
    }
    this.page.loaded(this.key);
  }
}

class ComparePage {
  constructor(config) {
    this.config = config;
    this.byId = new Map(config.runs.map((run) => [run.id, run]));
    this.active = config.runs.filter((run) => run.active).length;
    this.view = new View({ kept: config.chart_view, url: config.keep_view });
    this.charts = new Charts(document.getElementById("charts"), this.view, {
      sourceOf: (key) => new RunsSource(key, this),
      csv: (key) => `${config.points}&${new URLSearchParams({ key })}`,
    });
    bindToolbar(document.getElementById("chart-tools"), this.view, () => this.charts.viewChanged());
    this.charts.update(config.keys);
    this.paint();
    this.table();
    const place = document.getElementById("parallel");
    if (place) this.parallel = new Parallel(place, this);
  }

  run(id) {
    return this.byId.get(id);
  }

  loaded(key) {
    document.querySelector(`.chart[data-key="${CSS.escape(key)}"]`)?.classList.add("loaded");
    this.charts.update([key]);
    document.body.dataset.caughtUp = "1";
  }

  setActive(ids) {
    this.active = ids.length;
  }

  /** Runs that go on are asked for again, those charts only that are looked at. */
  start() {
    setInterval(() => {
      if (document.hidden || !this.active) return;
      for (const card of this.charts.cards.values()) if (card.mounted) card.source.want(true);
    }, POLL_MS);
    document.addEventListener("visibilitychange", () => this.charts.drawAll());
  }

  /** The little lines before the runs' names. */
  paint() {
    for (const element of document.querySelectorAll("[data-run-line]")) {
      const run = this.run(element.dataset.runLine);
      element.style.setProperty("--run", `var(${run.colour})`);
      element.dataset.dash = run.dash;
    }
  }

  // -- The table sorts by a column, and stays sorted when it is fetched again.

  table() {
    const place = document.getElementById("compare-values");
    if (!place) return;
    place.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-column]");
      if (!button) return;
      const same = this.sorted?.column === button.dataset.column;
      this.sorted = { column: button.dataset.column, down: same ? !this.sorted.down : true };
      this.sort();
      place.querySelector(`button[data-column="${CSS.escape(button.dataset.column)}"]`).focus();
    });
    document.body.addEventListener("htmx:afterSwap", () => {
      this.paint();
      this.sort();
      this.parallel?.draw();
    });
  }

  sort() {
    if (!this.sorted) return;
    const table = document.querySelector("#compare-table table");
    const { column, down } = this.sorted;
    const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.querySelector("button")?.dataset.column === column);
    if (at < 0) return;
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    table.tHead.rows[0].cells[at].setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => {
      const text = row.cells[at].dataset.value ?? row.cells[at].textContent.trim();
      return text === "" ? null : Number.isNaN(Number(text)) ? text.toLowerCase() : Number(text);
    };
    const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
    // What has no value stays at the end, whichever way one sorts.
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  /** Each run's best value of a metric, read from the table. */
  best(key) {
    const found = new Map();
    for (const cell of document.querySelectorAll("#compare-table td[data-metric]")) {
      if (cell.dataset.metric === key && cell.dataset.value !== "") found.set(cell.dataset.run, Number(cell.dataset.value));
    }
    return found;
  }
}

const page = new ComparePage(JSON.parse(document.getElementById("compare-config").textContent));
window.tuneyard.compare = page;
page.start();
