// Numbers as the server writes them (workspaces/formats.py).

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value === "NaN" || Number.isNaN(value)) return "NaN";
  if (value === "Infinity" || value === Infinity) return "∞";
  if (value === "-Infinity" || value === -Infinity) return "−∞";
  const size = Math.abs(value);
  let text;
  if (Number.isInteger(value) && size < 1e15) {
    text = value.toLocaleString("en-US");
  } else if (size < 1e-3 || size >= 1e12) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    text = `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}e${Number(exponent)}`;
    return value < 0 ? text.replace("-", "−") : text;
  } else {
    const places = Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
    text = value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
  }
  return text.replace("-", "−");
}

export function percent(fraction, digits = 0) {
  return Number.isFinite(fraction) ? `${(fraction * 100).toFixed(digits)} %` : "–";
}

/** An amount (decimal text) with the cents that matter. */
export function money(amount, currency = "USD") {
  const value = Number(amount);
  const size = Math.abs(value);
  const places = size >= 1 || size === 0 ? 2 : Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(size))));
  const text = size.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
  const sign = value < 0 ? "−" : "";
  return currency === "USD" ? `${sign}$${text}` : `${sign}${text} ${currency}`;
}

/** How long is left, as one says it. */
export function left(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return "less than a minute left";
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `about ${minutes} min left`;
  return `about ${(minutes / 60).toFixed(minutes < 600 ? 1 : 0)} h left`;
}
