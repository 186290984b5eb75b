// What a person chose in the toolbar. It lives in the URL, so that reload, back and share keep it; without anything in
// the URL the choice of last time in this project holds, which the server keeps.

import { X_AXES } from "./curves.js";

export const MARKS = ["restarts", "checkpoints", "best"];
const NAMES = ["x", "smooth", "log", "logx", "clip", "show", "zoom", "marks"];
// What belongs to the moment, not to the person.
const MOMENTARY = ["show", "zoom"];
const SAVE_MS = 700;

export class View {
  /** `kept` is the query string of last time; `url` is where to keep the next. */
  constructor({ kept = "", url = "", search = location.search } = {}) {
    const here = new URLSearchParams(search);
    const given = NAMES.some((name) => here.has(name)) ? here : new URLSearchParams(kept);
    this.url = url;
    this.kept = kept;
    this.x = given.get("x") in X_AXES ? given.get("x") : "step";
    const smoothing = Number(given.get("smooth"));
    this.smoothing = given.has("smooth") && smoothing >= 0 && smoothing < 1 ? smoothing : 0.6;
    this.log = given.get("log") === "1";
    this.logx = given.get("logx") === "1";
    this.clip = given.get("clip") === "1";
    this.show = given.get("show") ?? "";
    this.marks = new Set(given.has("marks") ? given.get("marks").split(".").filter((mark) => MARKS.includes(mark)) : MARKS);
    const zoom = (given.get("zoom") ?? "").split("~").map(Number);
    this.zoom = zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null;
  }

  /** What changes how every chart looks. */
  get look() {
    const { x, smoothing, log, logx, clip, zoom, marks } = this;
    return [x, smoothing, log, logx, clip, zoom, [...marks].sort()].join("|");
  }

  /** Does a metric pass the filter: a regular expression, or plain text where it is none. */
  get matches() {
    const text = this.show.trim();
    if (!text) return () => true;
    try {
      const pattern = new RegExp(text, "i");
      return (key) => pattern.test(key);
    } catch {
      return (key) => key.toLowerCase().includes(text.toLowerCase());
    }
  }

  params() {
    const on = (flag) => (flag ? "1" : "0");
    return {
      x: [this.x, "step"],
      smooth: [String(this.smoothing), "0.6"],
      log: [on(this.log), "0"],
      logx: [on(this.logx), "0"],
      clip: [on(this.clip), "0"],
      show: [this.show, ""],
      zoom: [this.zoom ? this.zoom.map((value) => Number(value.toPrecision(8))).join("~") : "", ""],
      marks: [MARKS.filter((mark) => this.marks.has(mark)).join("."), MARKS.join(".")],
    };
  }

  save() {
    const url = new URL(location.href);
    const lasting = new URLSearchParams();
    for (const [name, [value, usual]] of Object.entries(this.params())) {
      if (value === usual) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
      if (value !== usual && !MOMENTARY.includes(name)) lasting.set(name, value);
    }
    // Said even where it is the usual, or else another person's habits would fill in for it.
    url.searchParams.set("x", this.x);
    history.replaceState(history.state, "", url);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.keep(lasting.toString()), SAVE_MS);
  }

  async keep(query) {
    if (!this.url || query === this.kept) return;
    this.kept = query;
    const body = new URLSearchParams({ query });
    await fetch(this.url, { method: "POST", body, headers: { "X-CSRFToken": window.tuneyard.csrf() }, keepalive: true }).catch(() => {
      this.kept = null;
    });
  }
}

/** Joins the toolbar with the view; `changed()` is called after each change. */
export function bindToolbar(form, view, changed) {
  const fields = Object.fromEntries(["x", "smooth", "log", "logx", "clip", "show"].map((name) => [name, form.elements[name]]));
  const marks = [...form.querySelectorAll("[name=marks]")];
  const shown = form.querySelector("output");
  const write = () => {
    fields.x.value = view.x;
    fields.smooth.value = String(view.smoothing);
    for (const name of ["log", "logx", "clip"]) fields[name].checked = view[name];
    if (fields.show.value !== view.show) fields.show.value = view.show;
    for (const mark of marks) mark.checked = view.marks.has(mark.value);
    shown.textContent = view.smoothing.toFixed(2);
  };
  write();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    // A zoom is one of the x-axis it was made on.
    if (view.x !== fields.x.value) view.zoom = null;
    view.x = fields.x.value;
    view.smoothing = Number(fields.smooth.value);
    for (const name of ["log", "logx", "clip"]) view[name] = fields[name].checked;
    view.show = fields.show.value;
    if (marks.length) view.marks = new Set(marks.filter((mark) => mark.checked).map((mark) => mark.value));
    shown.textContent = view.smoothing.toFixed(2);
    view.save();
    changed();
  });
}
