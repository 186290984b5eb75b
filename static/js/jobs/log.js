// The log: follows its end until someone scrolls up. Lines are hostile text, and are only ever set as text.

const MOST_LINES = 5000;
const LEVELS = ["debug", "info", "warning", "error"];
// Terminal colours and cursor movements, and control characters that are neither tab nor line end.
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** What a terminal would show in the end: without escape codes, and of a line drawn over and over the last state. */
export function clean(text) {
  return text.split("\n").map((line) => {
    const parts = line.split("\r").filter((part) => part !== "");
    return (parts[parts.length - 1] ?? "").replace(ESCAPES, "");
  }).join("\n");
}

export class LogView {
  constructor(root) {
    this.root = root;
    this.lines = root.querySelector("[data-log-lines]");
    this.jump = root.querySelector("[data-log-jump]");
    this.level = root.querySelector("[data-log-level]");
    this.search = root.querySelector("[data-log-search]");
    this.empty = root.querySelector("[data-log-empty]");
    this.attempt = 0;
    this.seq = 0;
    this.following = true;
    this.lines.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.jump.addEventListener("click", () => this.follow());
    this.level.addEventListener("change", () => this.filter());
    this.search.addEventListener("input", () => this.filter());
  }

  add(rows) {
    const fragment = document.createDocumentFragment();
    for (const [attempt, seq, t, level, text] of rows) {
      if (attempt < this.attempt || (attempt === this.attempt && seq <= this.seq)) continue;
      if (this.attempt && attempt > this.attempt) fragment.append(this.divider(attempt));
      this.attempt = attempt;
      this.seq = seq;
      fragment.append(this.line(t, level, text));
    }
    if (!fragment.childNodes.length) return;
    this.empty.hidden = true;
    this.lines.append(fragment);
    while (this.lines.childElementCount > MOST_LINES) this.lines.firstElementChild.remove();
    if (this.following) this.toEnd();
  }

  line(t, level, text) {
    const row = document.createElement("div");
    row.className = "log-line";
    row.dataset.level = LEVELS.includes(level) ? level : "info";
    const time = document.createElement("time");
    const moment = new Date(t * 1000);
    time.dateTime = moment.toISOString();
    time.title = moment.toString();
    time.textContent = moment.toLocaleTimeString("en-GB");
    const mark = document.createElement("span");
    mark.className = "log-level";
    mark.textContent = row.dataset.level;
    const body = document.createElement("span");
    body.className = "log-text";
    body.textContent = clean(text);
    row.append(time, mark, body);
    row.hidden = !this.passes(row);
    return row;
  }

  divider(attempt) {
    const row = document.createElement("div");
    row.className = "log-divider";
    row.textContent = `Attempt ${attempt}`;
    return row;
  }

  passes(row) {
    if (!row.dataset.level) return true;
    const words = this.search.value.trim().toLowerCase();
    return LEVELS.indexOf(row.dataset.level) >= LEVELS.indexOf(this.level.value)
      && (words === "" || row.lastElementChild.textContent.toLowerCase().includes(words));
  }

  filter() {
    for (const row of this.lines.children) row.hidden = !this.passes(row);
    if (this.following) this.toEnd();
  }

  scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.lines;
    this.following = scrollHeight - scrollTop - clientHeight < 24;
    this.jump.hidden = this.following;
  }

  follow() {
    this.following = true;
    this.jump.hidden = true;
    this.toEnd();
  }

  toEnd() {
    this.lines.scrollTop = this.lines.scrollHeight;
  }
}
