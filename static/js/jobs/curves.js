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
 * The line through some points, as it is drawn: gaps are null. On a log axis what is zero or below has no place: on the
 * y-axis it is a gap, on the x-axis the point goes; both are counted in `notDrawn`.
 */
export function line(xs, values, { smoothing, log, logx, most = 2000 }) {
  let notDrawn = 0;
  const kept = [];
  const raw = [];
  for (let index = 0; index < xs.length; index += 1) {
    const value = values[index];
    const fits = !logx || xs[index] > 0;
    if (isFiniteValue(value) && (!fits || (log && value <= 0))) notDrawn += 1;
    if (!fits) continue;
    kept.push(xs[index]);
    raw.push(!isFiniteValue(value) || (log && value <= 0) ? null : value);
  }
  const smoothed = smoothing > 0 ? smooth(raw, smoothing) : null;
  const pick = (ys) => {
    const chosen = thin(ys, most);
    return { x: chosen.map((index) => kept[index]), y: chosen.map((index) => ys[index]) };
  };
  return { raw: pick(raw), smoothed: smoothed && pick(smoothed), notDrawn };
}

/** What to draw of a job's series. `start` is the unix time of the job's start. */
export function curve(series, view, start) {
  const axis = X_AXES[view.x] ?? X_AXES.step;
  const xs = series.points.map((point) => axis.of(point, start));
  const drawn = line(xs, series.points.map((point) => point.value), view);
  return { ...drawn, restarts: series.restarts.map((point) => axis.of(point, start)) };
}

/** Where a step lies on the x-axis, by this series' points; null where it has none so far. */
export function placeOf(series, step, x, start) {
  const { points } = series;
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].step < step) low = middle + 1;
    else high = middle;
  }
  return low < points.length ? (X_AXES[x] ?? X_AXES.step).of(points[low], start) : null;
}

/**
 * The y-range to show, or null for that of the data. With `clip`: what 5 to 95 % of the values cover. A line that is
 * level gets room by its own size: 0.0002 must not lie in a range from −1 to 1.
 */
export function rangeOf(columns, { clip, log }) {
  const values = columns.flat().filter((value) => value !== null).map((value) => (log ? Math.log10(value) : value));
  if (!values.length) return null;
  values.sort((a, b) => a - b);
  const at = (share) => values[Math.round(share * (values.length - 1))];
  const [low, high] = clip ? [at(0.05), at(0.95)] : [values[0], values[values.length - 1]];
  if (high - low <= Math.abs(high) * 1e-9) {
    const room = log ? 0.5 : Math.abs(high) / 2 || 0.5;
    return [low - room, high + room];
  }
  const room = (high - low) * 0.06;
  return clip ? [low - room, high + room] : null;
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
