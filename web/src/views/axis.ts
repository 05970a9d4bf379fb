/** What lies along a curve: rounds, passes or time since the start. Pure. */
import type { Axis, Detail } from "../api";
import type { Line } from "../chart/lines";
import { count, elapsed, short } from "../format";
import type { Range } from "../source";

export const AXES = [
  ["round", "Round"],
  ["pass", "Pass"],
  ["time", "Time"],
] as const satisfies readonly (readonly [Axis, string])[];

const TIMES = [
  0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
];

/** For what is known once a pass. */
export function wholePasses(): ReturnType<typeof xAxis> {
  return { ...xAxis("pass"), increments: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] };
}

export function xAxis(axis: Axis): { label: string; format: (value: number) => string; increments?: number[] } {
  if (axis === "time") return { label: "after", format: elapsed, increments: TIMES };
  if (axis === "pass") return { label: "pass", format: (value) => String(Number(value.toFixed(2))) };
  return { label: "round", format: (value) => (Math.abs(value) < 1e5 ? count(value) : short(value)) };
}

/** Time is drawn from the start of a run, so that runs can be laid over each other. */
export function origin(axis: Axis, started: number | null): number {
  return axis === "time" ? (started ?? 0) : 0;
}

export function moved(line: Line, by: number): Line {
  return by === 0 ? line : { ...line, x: line.x.map((x) => x - by) };
}

export function movedRange(range: Range | null, by: number): Range | null {
  return range && { from: range.from + by, to: range.to + by };
}

/** When a point was recorded; between passes, as far as the way between them. */
export function timeAt(detail: Detail, axis: Axis, x: number): number | null {
  if (axis === "time") return x;
  const known: [number, number][] = [];
  if (detail.run.started != null) known.push([0, detail.run.started]);
  for (const pass of detail.passes)
    if (pass.time != null) known.push([axis === "pass" ? pass.pass + 1 : pass.round, pass.time]);
  if (axis === "round" && detail.run.round != null && detail.run.updated != null)
    known.push([detail.run.round, detail.run.updated]);
  known.sort((a, b) => a[0] - b[0]);
  const after = known.findIndex(([at]) => at >= x);
  if (after < 0) return known.at(-1)?.[1] ?? null;
  const [b, end] = known[after]!;
  const [a, begin] = known[Math.max(0, after - 1)]!;
  return a === b ? end : begin + ((x - a) / (b - a)) * (end - begin);
}
