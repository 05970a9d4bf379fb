/** Sorting and filtering of runs. Pure. */
import type { Run, State } from "../api";

export type Column =
  "name" | "state" | "metric" | "best" | "passes" | "seconds" | "samplesPerSecond" | "workers" | "dollars" | "started";

export interface Order {
  column: Column;
  descending: boolean;
}

export const COLUMNS: { column: Column; title: string; numeric: boolean }[] = [
  { column: "name", title: "Name", numeric: false },
  { column: "state", title: "State", numeric: false },
  { column: "metric", title: "Metric", numeric: true },
  { column: "best", title: "Best", numeric: true },
  { column: "passes", title: "Passes", numeric: true },
  { column: "seconds", title: "Duration", numeric: true },
  { column: "samplesPerSecond", title: "Samples/s", numeric: true },
  { column: "workers", title: "Workers", numeric: true },
  { column: "dollars", title: "Cost ($)", numeric: true },
  { column: "started", title: "Started", numeric: true },
];

const STATES: State[] = ["running", "silent", "failed", "stopped", "done", "unknown"];

function value(run: Run, column: Column): string | number | null {
  if (column === "name") return run.name;
  if (column === "state") return STATES.indexOf(run.state);
  if (column === "metric") return run.metric?.value ?? null;
  if (column === "best") return run.metric?.best ?? null;
  return run[column];
}

/** Runs that lack the value come last, whichever way one sorts. */
export function sorted(runs: Run[], order: Order): Run[] {
  const sign = order.descending ? -1 : 1;
  const keyed = runs.map((run) => [value(run, order.column), run] as const);
  keyed.sort(([a, first], [b, second]) => {
    if (a === null || b === null) return a === b ? names(first, second) : a === null ? 1 : -1;
    const difference = typeof a === "string" ? a.localeCompare(String(b), "en", { numeric: true }) : a - Number(b);
    return difference * sign || names(first, second);
  });
  return keyed.map(([, run]) => run);
}

function names(a: Run, b: Run): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** Every word must occur somewhere. */
export function matching(runs: Run[], words: string, states: ReadonlySet<State>): Run[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter((run) => {
    if (states.size && !states.has(run.state)) return false;
    const text = `${run.name} ${run.place} ${run.state} ${run.problem ?? ""} ${run.metric?.name ?? ""}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}
