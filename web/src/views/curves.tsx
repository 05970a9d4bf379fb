/** Curves of cost and of every metric: train, test and the baseline. */
import { effect, signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Axis, Detail, SeriesName } from "../api";
import { Chart } from "../chart/chart";
import type { Line } from "../chart/lines";
import { useSeries } from "../chart/series";
import { Check, Empty, Loading, Note, Segmented } from "../parts/bits";
import { go, runAddress } from "../route";
import { keep, kept } from "../preferences";
import type { Range } from "../source";
import { AXES, moved, movedRange, origin, timeAt, xAxis } from "./axis";

export const axis = signal<Axis>(kept("axis", "round", (value) => AXES.some(([name]) => name === value)));
export const log = signal(kept("log", false, (value) => typeof value === "boolean"));
export const smoothing = signal(kept("smoothing", 0, (value) => typeof value === "number" && value >= 0 && value < 1));
effect(() => keep({ axis: axis.value, log: log.value, smoothing: smoothing.value }));

export function CurvesView({ detail }: { detail: Detail }) {
  const groups = useMemo(() => byMetric(detail.series), [detail.series]);
  const [range, setRange] = useState<Range | null>(null);
  useEffect(() => setRange(null), [axis.value]);
  const shift = origin(axis.value, detail.run.started);
  const names = groups.flatMap(([, each]) => each);
  const curves = useSeries(detail.run.id, names, axis.value, movedRange(range, shift), detail.run.state === "running");
  if (groups.length === 0)
    return (
      <Empty title="No curves yet">
        <p>The first points are written after the first log period of training.</p>
      </Empty>
    );
  const pick = (x: number) => {
    const time = timeAt(detail, axis.value, x + shift);
    if (time != null && detail.logs.length) go(runAddress(detail.run.id, "logs", { time: time.toFixed(1) }));
  };
  return (
    <section aria-label="Curves">
      <CurveTools hint="Drag to zoom, double-click to reset, click to open the log there" />
      {curves.problem && <Note tone="warn">The curves cannot be read: {curves.problem}</Note>}
      {curves.loading && !names.some((name) => curves.get(name)) ? (
        <Loading what="curves" />
      ) : (
        <div class="charts">
          {groups.map(([metric, each]) => (
            <Chart
              key={metric}
              title={metric}
              lines={each.map((name, i) => moved(line(curves.get(name), name, i), shift))}
              x={xAxis(axis.value)}
              log={log.value}
              smoothing={smoothing.value}
              baseline={
                detail.baseline?.metric === metric
                  ? { label: detail.baseline.name, value: detail.baseline.value }
                  : null
              }
              range={range}
              onZoom={setRange}
              onPick={pick}
              sync="curves"
              height={groups.length === 1 ? 380 : 260}
            />
          ))}
        </div>
      )}
    </section>
  );
}

export function CurveTools({ hint }: { hint: string }) {
  return (
    <div class="toolbar">
      <Segmented
        name="Along"
        value={axis.value}
        options={AXES}
        onChange={(value) => {
          axis.value = value;
        }}
      />
      <Check
        label="Log scale"
        checked={log.value}
        onChange={(value) => {
          log.value = value;
        }}
      />
      <label class="slider">
        <span>Smoothing</span>
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={smoothing.value}
          onInput={(event) => {
            smoothing.value = Number(event.currentTarget.value);
          }}
        />
        <output>{smoothing.value.toFixed(2)}</output>
      </label>
      <span class="hint quiet">{hint}</span>
    </div>
  );
}

function line(series: { x: number[]; y: (number | null)[] } | null, name: string, i: number): Line {
  const kind = name.split("/")[0]!;
  const colour = kind === "test" ? 1 : kind === "train" || kind === "cost" ? 0 : i;
  return {
    label: kind === "cost" ? "train" : kind,
    colour,
    dash: kind === "test" ? 1 : 0,
    x: series?.x ?? [],
    y: series?.y ?? [],
  };
}

/** "cost", "train/cost" and "test/cost" belong together, as do "train/rmse" and "test/rmse". The cost comes first. */
export function byMetric(series: SeriesName[]): [string, string[]][] {
  const groups = new Map<string, string[]>();
  for (const { name, group } of series) {
    if (group !== "cost" && group !== "metric") continue;
    const metric = name.includes("/") ? name.slice(name.indexOf("/") + 1) : name;
    groups.set(metric, [...(groups.get(metric) ?? []), name]);
  }
  for (const names of groups.values()) names.sort((a, b) => rank(a) - rank(b));
  const both = groups.get("cost");
  if (both?.includes("cost"))
    groups.set(
      "cost",
      both.filter((name) => name !== "train/cost"),
    );
  return [...groups].sort(([a], [b]) => Number(b === "cost") - Number(a === "cost") || a.localeCompare(b));
}

function rank(name: string): number {
  return name.startsWith("test/") ? 1 : 0;
}
