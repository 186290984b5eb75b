// The job page: joins the feed with header, charts, log and rollouts.

import { Charts } from "./charts.js";
import { left, money, number, percent } from "./format.js";
import { JobSource } from "./job_source.js";
import { Feed } from "./live.js";
import { LogView } from "./log.js";
import { MetricStore } from "./store.js";
import { Strip } from "./strip.js";
import { View, bindToolbar } from "./view.js";

const tuneyard = window.tuneyard;
const MOST_IN_ADDRESS = 50;
const STALE_S = 60;
const ROLLOUTS_MS = 3000;

function stepText(step, total) {
  if (!total) return step ? `step ${step}` : "";
  return step ? `step ${step} / ${total}` : `${number(total)} steps`;
}

class JobPage {
  constructor(config) {
    this.config = config;
    this.state = config.state;
    this.store = new MetricStore();
    this.checkpoints = [];
    this.view = new View({ kept: config.chart_view, url: config.keep_view });
    this.charts = new Charts(document.getElementById("charts"), this.view, {
      sourceOf: (key) => new JobSource(key, this),
      csv: (...keys) => `${config.metrics}?${new URLSearchParams(keys.map((key) => ["key", key]))}`,
    });
    this.strip = new Strip(document.getElementById("strip"), this.store);
    this.log = new LogView(document.getElementById("panel-log"));
    this.badge = document.getElementById("live-badge");
    this.status = "connecting";
    this.newestRollouts = "";
    this.rolloutTimers = new Map();
    this.toolbar();
    this.tabs();
    this.rolloutsShown();
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.feed = new Feed({
      url: config.updates,
      socketUrl: `${scheme}//${location.host}${config.socket}`,
      onUpdate: (answer) => this.update(answer),
      onStatus: (status) => this.onStatus(status),
    });
  }

  run() {
    setInterval(() => this.tellAge(), 1000);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.redraw(); });
    return this.feed.start();
  }

  /** When the job began to run, by the server's clock; the first point's time while that is unknown. */
  start() {
    if (this.job?.started_at) return this.job.started_at;
    let first = Infinity;
    for (const key of this.store.keys()) first = Math.min(first, this.store.get(key).points[0]?.t ?? Infinity);
    return Number.isFinite(first) ? first : 0;
  }

  // -- What the server sends

  update(answer) {
    this.job = answer.job;
    this.serverTime = answer.server_time;
    this.heardAt = performance.now();
    const changed = this.store.add(answer.metrics);
    this.checkpoints = answer.checkpoints;
    this.log.add(answer.log);
    this.head(answer.job);
    this.charts.update(changed);
    if (!answer.more) this.afterAll(answer);
  }

  /** What is done once per catch-up and not for each of its answers. */
  afterAll(answer) {
    if (!document.hidden) this.strip.update();
    this.emptyCharts();
    this.rollouts(answer.rollouts);
    if (answer.job.state !== this.state) {
      this.state = answer.job.state;
      // Everything that depends on the state is the server's to write.
      window.htmx.ajax("GET", this.config.parts, { source: document.body, target: "#job-live", swap: "none" });
    }
    this.tellAge();
    document.body.dataset.caughtUp = answer.cursor;
  }

  redraw() {
    this.charts.drawAll();
    this.strip.update();
  }

  emptyCharts() {
    const empty = document.getElementById("charts-empty");
    const none = this.store.keys().length === 0;
    empty.hidden = !none;
    document.getElementById("chart-tools").hidden = none;
    if (none) {
      empty.removeAttribute("aria-busy");
      empty.replaceChildren();
      const line = document.createElement("p");
      line.className = "soft";
      line.textContent = this.job.terminal ? "It ended before the first step, so there is nothing to draw."
        : "The first points appear after the first step.";
      empty.append(line);
    }
  }

  head(job) {
    const set = (name, text) => {
      for (const element of document.querySelectorAll(`[data-live="${name}"]`)) {
        if (element.textContent !== text) element.textContent = text;
      }
    };
    set("step", stepText(job.step, job.total_steps));
    set("percent", job.fraction > 0 ? percent(job.fraction) : "");
    set("phase", job.terminal ? "" : job.phase);
    set("eta", job.terminal ? "" : left(job.eta_s ?? NaN));
    set("cost", money(job.cost, job.currency));
    set("reason", job.waiting?.why ?? job.reason);
    for (const bar of document.querySelectorAll("[data-live-bar]")) {
      bar.style.width = `${job.fraction * 100}%`;
      bar.parentElement.setAttribute("aria-valuenow", String(Math.round(job.fraction * 100)));
    }
    const progress = job.terminal || !(job.fraction > 0) ? job.label : `${percent(job.fraction)} ${job.label.toLowerCase()}`;
    tuneyard.setTab(`${job.state === "running" ? "▶ " : ""}${progress} · ${this.config.name}`, job.tone);
  }

  // -- The badge: how old what one sees is, never a silent freeze.

  onStatus(status) {
    this.status = status;
    if (status === "signed-out") tuneyard.notify("You are signed out. Sign in again to follow the job.");
    if (status === "gone") tuneyard.notify("This job is no longer there, or no longer yours to see.");
    this.tellAge();
  }

  tellAge() {
    const [tone, text] = this.badgeText();
    if (this.badge.textContent !== text) this.badge.textContent = text;
    this.badge.className = `live-badge tone-${tone}`;
    this.badge.dataset.status = this.status;
  }

  badgeText() {
    if (this.status === "ended") return ["cancelled", "final"];
    if (this.status === "signed-out" || this.status === "gone") return ["failed", "no longer followed"];
    if (this.status === "connecting" || this.serverTime === undefined) return ["waiting", "connecting"];
    const heard = (performance.now() - this.heardAt) / 1000;
    if (this.status === "reconnecting") return ["recovering", `reconnecting; last heard ${tuneyard.duration(heard)} ago`];
    const way = this.status === "live" ? "live" : "live, by asking";
    if (this.store.lastTime === null) return ["running", way];
    const age = Math.max(0, this.serverTime - this.store.lastTime + heard);
    return [age > STALE_S ? "waiting" : "running", `${way}; last point ${tuneyard.duration(age)} ago`];
  }

  // -- Rollouts: fetched as HTML; follows the newest step until one chooses another.

  rollouts(found) {
    const newest = found.newest?.join(":") ?? "";
    if (newest === this.newestRollouts) return;
    const first = this.newestRollouts === "";
    this.newestRollouts = newest;
    document.getElementById("rollouts-none")?.toggleAttribute("hidden", newest !== "");
    for (const place of document.querySelectorAll("[data-rollouts-follow]")) {
      if (place.dataset.rolloutsFollow === "no" || (!first && place.matches(":focus-within"))) continue;
      if (place.closest("[hidden]")) place.dataset.waits = "1";
      else this.loadRollouts(place);
    }
  }

  /** A step that someone chose stays; only the newest moves on by itself. */
  rolloutsShown() {
    const place = document.getElementById("rollouts");
    place.addEventListener("htmx:afterSwap", () => {
      const chosen = place.querySelector('select[name="at"]')?.value ?? "";
      place.dataset.rolloutsFollow = chosen === "" ? "" : "no";
    });
  }

  /** At most every few seconds: a fast job has new samples all the time, and nobody reads that fast. */
  loadRollouts(place) {
    delete place.dataset.waits;
    const now = performance.now();
    const due = Number(place.dataset.loadedAt ?? -Infinity) + ROLLOUTS_MS;
    if (now < due) {
      clearTimeout(this.rolloutTimers.get(place));
      this.rolloutTimers.set(place, setTimeout(() => this.loadRollouts(place), due - now));
      return;
    }
    place.dataset.loadedAt = String(now);
    window.htmx.ajax("GET", place.dataset.url, { target: place, swap: "innerHTML" });
  }

  // -- Tabs and toolbar; both in the URL.

  tabs() {
    const list = document.getElementById("tabs");
    list.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-tab]");
      if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.open(link.dataset.tab);
    });
    document.addEventListener("click", (event) => {
      const opener = event.target.closest("[data-open-tab]");
      if (opener) {
        event.preventDefault();
        this.open(opener.dataset.openTab);
      }
    });
  }

  open(name) {
    for (const link of document.querySelectorAll("#tabs a[data-tab]")) {
      if (link.dataset.tab === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const panel of document.querySelectorAll("[data-panel]")) panel.hidden = panel.dataset.panel !== name;
    const url = new URL(location.href);
    if (name === "charts") url.searchParams.delete("tab");
    else url.searchParams.set("tab", name);
    history.replaceState(history.state, "", url);
    if (name === "log" && this.log.following) this.log.toEnd();
    for (const place of document.querySelectorAll("[data-waits]")) if (!place.closest("[hidden]")) this.loadRollouts(place);
  }

  toolbar() {
    const tools = document.getElementById("chart-tools");
    const csv = tools.querySelector("[data-points-csv]");
    const changed = () => {
      const { shown } = this.charts;
      csv.href = this.view.show.trim() && shown.length <= MOST_IN_ADDRESS ? this.charts.csv(...shown) : this.config.metrics;
      this.charts.viewChanged();
    };
    bindToolbar(tools, this.view, changed);
    csv.addEventListener("pointerdown", changed);
    csv.addEventListener("focus", changed);
  }
}

const page = new JobPage(JSON.parse(document.getElementById("job-config").textContent));
// For the console, and for tests in a browser.
window.tuneyard.job = page;
page.run();
