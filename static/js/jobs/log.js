// The log: a window on lines of any number. It follows the end until someone scrolls up, loads earlier and later lines
// as one scrolls, and keeps only some of them in the page. Lines are hostile text, and are only ever set as text.

const MOST_LINES = 1500;
const NEAR = 400;
const LEVELS = ["debug", "info", "warning", "error"];
const SEARCH_MS = 350;
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

const after = (a, b) => a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]);

export class LogView {
  constructor(root) {
    this.root = root;
    this.lines = root.querySelector("[data-log-lines]");
    this.url = root.querySelector("[data-log-url]").dataset.logUrl;
    this.jump = root.querySelector("[data-log-jump]");
    this.level = root.querySelector("[data-log-level]");
    this.attemptChoice = root.querySelector("[data-log-attempt]");
    this.search = root.querySelector("[data-log-search]");
    this.regex = root.querySelector("[data-log-regex]");
    this.time = root.querySelector("[data-log-time]");
    this.hits = root.querySelector("[data-log-hits]");
    this.problem = root.querySelector("[data-log-problem]");
    this.download = root.querySelector("[data-log-download]");
    this.empty = root.querySelector("[data-log-empty]");
    this.newest = [0, 0];
    this.following = true;
    this.atStart = false;
    this.atEnd = true;
    this.loading = false;
    this.asked = 0;
    this.attempts = new Set();
    this.lines.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.jump.addEventListener("click", () => this.follow());
    this.level.addEventListener("change", () => this.reload());
    this.attemptChoice.addEventListener("change", () => this.reload());
    this.search.addEventListener("input", () => this.searchSoon());
    this.regex.addEventListener("change", () => this.searchSoon(0));
    this.time.addEventListener("change", () => this.toTime());
    this.hits.addEventListener("click", (event) => this.openHit(event));
    this.fromAddress();
  }

  // -- What comes by itself

  add(rows) {
    const found = rows.filter((row) => after(row, this.newest));
    if (!found.length) return;
    this.newest = [found[found.length - 1][0], found[found.length - 1][1]];
    this.knowAttempts(found.map((row) => row[0]));
    // Lines that were scrolled away are loaded again when one comes back to the end.
    if (this.atEnd) this.append(found.filter((row) => this.passes(row)));
  }

  passes([attempt, , , level]) {
    const wanted = LEVELS.indexOf(this.level.value);
    return (this.attemptChoice.value === "" || String(attempt) === this.attemptChoice.value)
      && Math.max(0, LEVELS.indexOf(level)) >= wanted;
  }

  append(rows) {
    if (!rows.length) return;
    this.empty.hidden = true;
    this.lines.append(this.fragment(rows, this.lastKey()?.[0]));
    if (this.following) {
      this.trim("first");
      this.toEnd();
    } else if (this.lines.childElementCount > 2 * MOST_LINES) {
      this.trim("last");
      this.atEnd = false;
    }
  }

  fragment(rows, attemptBefore) {
    const fragment = document.createDocumentFragment();
    let previous = attemptBefore;
    for (const row of rows) {
      if (previous !== undefined && row[0] !== previous) fragment.append(this.divider(row[0]));
      previous = row[0];
      fragment.append(this.line(row));
    }
    return fragment;
  }

  trim(end) {
    while (this.lines.childElementCount > MOST_LINES) {
      if (end === "first") {
        this.lines.firstElementChild.remove();
        this.atStart = false;
      } else this.lines.lastElementChild.remove();
    }
  }

  line([attempt, seq, t, level, text, length]) {
    const row = document.createElement("div");
    row.className = "log-line";
    row.dataset.level = LEVELS.includes(level) ? level : "info";
    row.dataset.key = `${attempt}:${seq}`;
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
    if (length > text.length) {
      const rest = document.createElement("em");
      rest.className = "soft";
      rest.textContent = ` … ${length - text.length} more characters; the download has them`;
      body.append(rest);
    }
    row.append(time, mark, body);
    return row;
  }

  divider(attempt) {
    const row = document.createElement("div");
    row.className = "log-divider";
    row.textContent = `Attempt ${attempt}`;
    return row;
  }

  // -- Windows

  query(more) {
    const query = new URLSearchParams(more);
    if (this.level.value !== "debug") query.set("level", this.level.value);
    if (this.attemptChoice.value) query.set("attempt", this.attemptChoice.value);
    return query;
  }

  async fetch(more) {
    const number = ++this.asked;
    let answer;
    try {
      const response = await fetch(`${this.url}?${this.query(more)}`, { headers: { Accept: "application/json" } });
      answer = await response.json();
    } catch {
      answer = { error: "The server did not answer. Scroll or search again." };
    }
    // A later question has been asked meanwhile: its answer counts.
    if (number !== this.asked) return null;
    this.problem.hidden = !answer.error;
    this.problem.textContent = answer.error ?? "";
    if (answer.attempts) this.knowAttempts(answer.attempts);
    return answer.error ? null : answer;
  }

  firstKey() { return this.keyOf(this.lines.querySelector(".log-line")); }

  lastKey() { return this.keyOf([...this.lines.querySelectorAll(".log-line")].pop()); }

  keyOf(row) { return row?.dataset.key.split(":").map(Number); }

  async reload(more = {}) {
    this.toAddress(more);
    const answer = await this.fetch(more);
    if (!answer) return;
    const rows = answer.lines;
    this.lines.replaceChildren(this.fragment(rows));
    this.empty.hidden = rows.length > 0;
    this.atStart = !("around" in more || "at" in more) && rows.length < 300;
    this.atEnd = !("around" in more || "at" in more);
    this.following = this.atEnd;
    this.jump.hidden = this.following;
    if (answer.target) this.show(answer.target);
    else this.toEnd();
  }

  show([attempt, seq]) {
    const row = this.lines.querySelector(`[data-key="${attempt}:${seq}"]`) ?? this.lines.querySelector(".log-line");
    if (!row) return;
    row.classList.add("log-hit");
    row.scrollIntoView({ block: "center" });
  }

  async earlier() {
    const key = this.firstKey();
    if (this.loading || this.atStart || !key) return;
    this.loading = true;
    const answer = await this.fetch({ before: key.join(":") });
    this.loading = false;
    if (!answer) return;
    this.atStart = answer.lines.length < 300;
    const height = this.lines.scrollHeight;
    this.lines.prepend(this.fragment(answer.lines));
    // What one reads stays where it is.
    this.lines.scrollTop += this.lines.scrollHeight - height;
    if (this.lines.childElementCount > MOST_LINES) {
      this.trim("last");
      this.atEnd = false;
    }
  }

  async later() {
    const key = this.lastKey();
    if (this.loading || this.atEnd || !key) return;
    this.loading = true;
    const answer = await this.fetch({ after: key.join(":") });
    this.loading = false;
    if (!answer) return;
    this.lines.append(this.fragment(answer.lines, key[0]));
    this.atEnd = answer.lines.length < 300;
    const top = this.lines.scrollTop;
    const height = this.lines.scrollHeight;
    this.trim("first");
    this.lines.scrollTop = top - (height - this.lines.scrollHeight);
  }

  scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.lines;
    const below = scrollHeight - scrollTop - clientHeight;
    this.following = this.atEnd && below < 24;
    this.jump.hidden = this.following;
    if (scrollTop < NEAR && scrollHeight > clientHeight && !this.following) this.earlier();
    else if (below < NEAR) this.later();
  }

  follow() {
    if (!this.atEnd) {
      this.time.value = "";
      this.reload();
      return;
    }
    this.following = true;
    this.jump.hidden = true;
    this.toEnd();
  }

  toEnd() {
    this.lines.scrollTop = this.lines.scrollHeight;
  }

  toTime() {
    const moment = new Date(this.time.value).getTime() / 1000;
    if (Number.isFinite(moment)) this.reload({ at: String(moment) });
  }

  knowAttempts(numbers) {
    for (const number of numbers) {
      if (this.attempts.has(number)) continue;
      this.attempts.add(number);
      this.attemptChoice.append(new Option(String(number), String(number)));
    }
    this.attemptChoice.closest("label").hidden = this.attempts.size < 2;
  }

  // -- Search: through the whole log, on the server; a hit opens in its context.

  searchSoon(wait = SEARCH_MS) {
    clearTimeout(this.searchTimer);
    this.searchTimer = setTimeout(() => this.find(), wait);
  }

  async find() {
    const text = this.search.value;
    this.toAddress();
    if (!text.trim()) {
      this.asked += 1;
      this.hits.hidden = true;
      this.problem.hidden = true;
      this.hits.replaceChildren();
      return;
    }
    const answer = await this.fetch({ q: text, ...(this.regex.checked ? { regex: "1" } : {}) });
    if (!answer) return;
    const summary = document.createElement("p");
    summary.className = "soft small mb-1";
    summary.textContent = answer.lines.length
      ? `${answer.lines.length}${answer.more ? " newest" : ""} ${answer.lines.length === 1 ? "line" : "lines"} found; choose one to see it in its place.`
      : "No line has it.";
    const list = document.createElement("ol");
    for (const [attempt, seq, t, , body] of answer.lines) {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.hit = `${attempt}:${seq}`;
      button.textContent = `${new Date(t * 1000).toLocaleTimeString("en-GB")}  ${clean(body).slice(0, 300)}`;
      item.append(button);
      list.append(item);
    }
    this.hits.replaceChildren(summary, list);
    this.hits.hidden = false;
  }

  openHit(event) {
    const button = event.target.closest("[data-hit]");
    if (button) this.reload({ around: button.dataset.hit });
  }

  // -- State in the address

  toAddress(more = {}) {
    const url = new URL(location.href);
    const state = {
      level: this.level.value === "info" ? "" : this.level.value,
      attempt: this.attemptChoice.value,
      q: this.search.value.trim(),
      regex: this.regex.checked ? "1" : "",
      line: more.around ?? "",
    };
    for (const [name, value] of Object.entries(state)) {
      if (value) url.searchParams.set(`l.${name}`, value);
      else url.searchParams.delete(`l.${name}`);
    }
    history.replaceState(history.state, "", url);
    const query = this.query(state.q ? { q: state.q, ...(state.regex ? { regex: "1" } : {}) } : {}).toString();
    this.download.href = this.download.href.split("?")[0] + (query && (state.q || state.attempt || state.level) ? `?${query}` : "");
  }

  fromAddress() {
    const given = new URL(location.href).searchParams;
    const level = given.get("l.level");
    if (LEVELS.includes(level)) this.level.value = level;
    const attempt = given.get("l.attempt") ?? "";
    if (/^\d{1,9}$/.test(attempt)) {
      this.knowAttempts([Number(attempt)]);
      this.attemptChoice.value = attempt;
    }
    this.search.value = given.get("l.q") ?? "";
    this.regex.checked = given.get("l.regex") === "1";
    const line = given.get("l.line") ?? "";
    const query = this.search.value.trim();
    const begin = async () => {
      if (/^\d{1,9}:\d{1,18}$/.test(line)) await this.reload({ around: line });
      else if (this.level.value !== "info" || this.attemptChoice.value) await this.reload();
      if (query) await this.find();
    };
    begin();
  }
}
