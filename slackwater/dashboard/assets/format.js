// Figures as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export function number(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 100 || Number.isInteger(value) ? whole.format(value) : fine.format(value);
}

export function share(value) {
  return value === null || value === undefined ? "–" : `${fine.format(value * 100)} %`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 172800) return `${fine.format(value / 86400)} days`;
  if (size >= 7200) return `${fine.format(value / 3600)} h`;
  if (size >= 120) return `${fine.format(value / 60)} min`;
  return size >= 0.1 || size === 0 ? `${fine.format(value)} s` : `${fine.format(value * 1000)} ms`;
}

export function bytes(value) {
  if (!value) return "0 B";
  const power = Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${fine.format(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

export function rate(value) {
  return `${number(value >= 10 ? Math.round(value) : value)}/s`;
}

// Times of a stream are written in UTC, without a zone; numbers are themselves.
export function instant(text) {
  if (text === null || text === undefined) return null;
  const stamp = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(`${text.replace(" ", "T")}Z`) / 1000 : Number(text);
  return Number.isFinite(stamp) ? stamp : null;
}

// A time without more digits than anybody reads.
export function stamp(text) {
  return text === null || text === undefined ? "–" : String(text).replace(/(\.\d{3})\d+$/, "$1");
}

export function isInstant(text) {
  return typeof text === "string" && /^\d{4}-\d\d-\d\d/.test(text);
}
