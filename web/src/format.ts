/** How numbers, times and sizes read. Pure; English. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value == null ? NONE : whole.format(value);
}

/** Four significant digits: what a metric or a cost is compared by. */
export function measure(value: number | null | undefined): string {
  if (value == null) return NONE;
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e7 || size < 1e-4) return value.toExponential(3);
  if (size >= 10000) return whole.format(value);
  return value.toLocaleString("en", { minimumSignificantDigits: 4, maximumSignificantDigits: 4, useGrouping: false });
}

/** For axes: as few digits as the number has. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  if (size !== 0 && size < 1e-3) return value.toExponential(0);
  return trim(value);
}

function trim(value: number): string {
  return String(Number(value.toPrecision(4)));
}

export function speed(value: number | null | undefined): string {
  return value == null ? NONE : value >= 100 ? whole.format(value) : measure(value);
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return `${unit === 0 || size >= 100 ? whole.format(size) : size.toFixed(1)} ${units[unit]}`;
}

export function dollars(value: number | null | undefined): string {
  if (value == null) return NONE;
  const digits = value !== 0 && Math.abs(value) < 0.1 ? 4 : 2;
  return `$${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds == null) return NONE;
  if (seconds <= 0) return "0 s";
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** For a time axis that begins with the run. */
export function elapsed(seconds: number): string {
  if (seconds < 60) return `${trim(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = Math.round(seconds % 60);
  if (minutes < 60) return rest ? `${minutes}:${String(rest).padStart(2, "0")} min` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 ? `${hours}:${String(minutes % 60).padStart(2, "0")} h` : `${hours} h`;
}

export function clock(time: number): string {
  return clockFormat.format(new Date(time * 1000));
}

export function moment(time: number | null | undefined): string {
  return time == null ? NONE : `${dayFormat.format(new Date(time * 1000))}, ${clock(time)}`;
}

export function ago(time: number | null | undefined, now: number): string {
  if (time == null) return NONE;
  const seconds = now - time;
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} days ago`;
}

/** "1 worker", "3 workers". */
export function plural(number: number, word: string): string {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}
