// From points to what is drawn: the x-axis, smoothing, thinning. Pure functions.

import { isFiniteValue } from "./store.js";

export const X_AXES = {
  step: { label: "step", title: "step", of: (point) => point.step },
  wall: { label: "time since the start", title: "minutes since the start", of: (point, start) => (point.t - start) / 60 },
  active: { label: "running time", title: "minutes of running", of: (point) => point.active / 60 },
  tokens: { label: "tokens", title: "tokens", of: (point) => point.tokens },
};

/**
 * Exponential moving average without the pull of the first value: the weights seen so far always add up to 1, so a
 * constant stays constant. Gaps (null) stay gaps and have no weight. `weight` in [0, 1) is what the past keeps.
 */
export function smooth(values, weight) {
  if (weight <= 0) return values.slice();
  let mean = 0;
  let norm = 0;
  return values.map((value) => {
    if (value === null) return null;
    norm = norm * weight + (1 - weight);
    // Moved by the difference, so that a constant is not even rounded away from itself.
    mean += (value - mean) * ((1 - weight) / norm);
    return mean;
  });
}

/**
 * At most about `most` of the indexes 0 … n-1: of each bucket the first lowest, the first highest and the last, and
 * every gap's first. Buckets are powers of two from the beginning, so new points never change those before them.
 */
export function thin(values, most) {
  const count = values.length;
  if (count <= most) return [...values.keys()];
  const width = 2 ** Math.ceil(Math.log2((count * 3) / most));
  const kept = [];
  for (let from = 0; from < count; from += width) {
    const until = Math.min(from + width, count);
    let low = -1;
    let high = -1;
    let gap = -1;
    for (let index = from; index < until; index += 1) {
      const value = values[index];
      if (value === null) {
        if (gap < 0) gap = index;
        continue;
      }
      if (low < 0 || value < values[low]) low = index;
      if (high < 0 || value > values[high]) high = index;
    }
    kept.push(...new Set([low, high, gap, until - 1].filter((index) => index >= 0).sort((a, b) => a - b)));
  }
  return kept;
}

/**
 * What to draw of a series. `start` is the unix time of the job's start. On a log axis values of zero and below have
 * no place: they are gaps, counted in `notDrawn`.
 */
export function curve(series, { x, smoothing, log, start, most = 2000 }) {
  const axis = X_AXES[x] ?? X_AXES.step;
  const xs = series.points.map((point) => axis.of(point, start));
  let notDrawn = 0;
  const raw = series.points.map((point) => {
    if (!isFiniteValue(point.value)) return null;
    if (log && point.value <= 0) {
      notDrawn += 1;
      return null;
    }
    return point.value;
  });
  const smoothed = smoothing > 0 ? smooth(raw, smoothing) : null;
  const pick = (values) => {
    const kept = thin(values, most);
    return { x: kept.map((index) => xs[index]), y: kept.map((index) => values[index]) };
  };
  return {
    raw: pick(raw),
    smoothed: smoothed && pick(smoothed),
    notDrawn,
    restarts: series.restarts.map((point) => axis.of(point, start)),
  };
}

/** Which way a metric has gone lately: 1, -1 or 0, from the smoothed value now and a tenth of the way back. */
export function trend(series) {
  const values = series.points.map((point) => point.value).filter(isFiniteValue);
  if (values.length < 4) return 0;
  const line = smooth(values, 0.8);
  const now = line[line.length - 1];
  const before = line[Math.max(0, line.length - 1 - Math.max(3, Math.floor(line.length / 10)))];
  const scale = Math.max(...values) - Math.min(...values);
  return scale > 0 && Math.abs(now - before) > scale * 0.01 ? Math.sign(now - before) : 0;
}
