// The points a page knows, by metric: each once, the later attempt's where attempts overlap.

/** JSON has no NaN or infinity; they come as their names and are kept as such, to be counted and left as gaps. */
export function isFiniteValue(value) {
  return typeof value === "number" && Number.isFinite(value);
}

class Series {
  constructor() {
    this.points = []; // {attempt, seq, step, value, t, active, tokens}
    this.attempt = 0;
    this.seq = 0;
    this.restarts = []; // the first point of each later attempt
    this.nonFinite = 0;
    this.version = 0;
  }

  /** Add a point unless it is known. Returns whether it was new. */
  add([attempt, seq, step, value, t, active, tokens]) {
    if (attempt < this.attempt || (attempt === this.attempt && seq <= this.seq)) return false;
    const point = { attempt, seq, step, value, t, active, tokens };
    if (this.attempt && attempt > this.attempt) this.restarts.push(point);
    while (this.points.length && this.points[this.points.length - 1].attempt < attempt
      && this.points[this.points.length - 1].step >= step) {
      if (!isFiniteValue(this.points.pop().value)) this.nonFinite -= 1;
    }
    this.points.push(point);
    if (!isFiniteValue(value)) this.nonFinite += 1;
    this.attempt = attempt;
    this.seq = seq;
    this.version += 1;
    return true;
  }

  get last() {
    return this.points[this.points.length - 1];
  }
}

export class MetricStore {
  constructor() {
    this.series = new Map();
    this.lastTime = null; // unix seconds of the newest point, by the clock of the node that made it
  }

  /** Take what an answer of the server holds; returns the keys that changed. */
  add(metrics) {
    const changed = new Set();
    for (const [key, points] of Object.entries(metrics)) {
      const series = this.series.get(key) ?? new Series();
      this.series.set(key, series);
      const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      for (const point of sorted) {
        if (!series.add(point)) continue;
        changed.add(key);
        if (this.lastTime === null || point[4] > this.lastTime) this.lastTime = point[4];
      }
    }
    return changed;
  }

  get(key) {
    return this.series.get(key);
  }

  keys() {
    return [...this.series.keys()];
  }

  last(key) {
    return this.series.get(key)?.last;
  }
}
