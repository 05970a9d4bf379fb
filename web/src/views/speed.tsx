/** How fast it trains, where each worker's round goes, and what processes use. */
import { useState } from "preact/hooks";
import type { Detail } from "../api";
import { Chart, type ChartProps } from "../chart/chart";
import type { Line } from "../chart/lines";
import { type Curves, useSeries } from "../chart/series";
import { bytes, duration, plural, speed } from "../format";
import { Card, Empty } from "../parts/bits";
import type { Range } from "../source";
import { moved, movedRange, origin, xAxis } from "./axis";
import { PARTS, Rounds } from "./rounds";

const MANY = 12; // lines that one chart can still tell apart

export function SpeedView({ detail }: { detail: Detail }) {
  const workers = [...new Set(detail.work.map((each) => each.worker))].sort((a, b) => a - b);
  const [worker, setWorker] = useState<number | null>(null);
  const shownWorker = worker ?? detail.slowest?.worker ?? workers[0] ?? 0;
  const [range, setRange] = useState<Range | null>(null);
  const there = new Set(detail.series.map((each) => each.name));
  const named = (group: string) =>
    detail.series
      .filter((each) => each.group === group)
      .map((each) => each.name)
      .slice(0, MANY);
  const parts = PARTS.map((part) => `work/${shownWorker}/${part.key}`).filter((name) => there.has(name));
  const names = [...named("speed"), ...parts, ...named("bytes"), ...named("memory"), ...named("cpu")];
  const shift = origin("time", detail.run.started);
  const curves = useSeries(detail.run.id, names, "time", movedRange(range, shift), detail.run.state === "running");
  const lines = (list: string[], label: (name: string) => string) =>
    list.map((name, i) => moved(line(curves, name, label(name), i), shift));
  const common = {
    x: xAxis("time"),
    range,
    onZoom: setRange,
    sync: "speed",
    fromZero: true,
    height: 220,
  } satisfies Partial<ChartProps>;
  if (names.length === 0 && detail.work.length === 0)
    return (
      <Empty title="No measurements yet">
        <p>Workers report where their time goes every few seconds while they train. Runs of older versions did not.</p>
      </Empty>
    );
  return (
    <section aria-label="Speed" class="stack">
      {detail.work.length > 0 && <Rounds detail={detail} />}
      <div class="charts">
        <Chart {...common} title="Samples per second" lines={lines(named("speed"), () => "all workers")} y={speed} />
        {parts.length > 0 && (
          <Chart
            {...common}
            title={workers.length > 1 ? "A round over time" : `A round of worker ${shownWorker}, over time`}
            lines={lines(parts, (name) => PARTS.find((part) => part.key === name.split("/")[2])!.title)}
            aside={
              workers.length > 1 && (
                <WorkerChoice
                  workers={workers}
                  shown={shownWorker}
                  slowest={detail.slowest?.worker}
                  onChange={setWorker}
                />
              )
            }
            stacked
            y={duration}
            yShort={duration}
          />
        )}
        {named("bytes").length > 0 && (
          <Chart
            {...common}
            title="Bytes per round"
            lines={lines(named("bytes"), bytesLabel)}
            y={bytes}
            yShort={bytes}
          />
        )}
        {named("memory").length > 0 && (
          <>
            <Chart {...common} title="Memory" lines={lines(named("memory"), processLabel)} y={bytes} yShort={bytes} />
            <Chart {...common} title="CPU, in cores" lines={lines(named("cpu"), processLabel)} y={cores} />
          </>
        )}
      </div>
      {detail.processes.length > 0 && <Processes detail={detail} />}
    </section>
  );
}

function WorkerChoice(props: {
  workers: number[];
  shown: number;
  slowest: number | undefined;
  onChange: (worker: number) => void;
}) {
  return (
    <label>
      <span class="unseen">Show the rounds of</span>
      <select value={String(props.shown)} onChange={(event) => props.onChange(Number(event.currentTarget.value))}>
        {props.workers.map((each) => (
          <option key={each} value={String(each)}>
            worker {each}
            {each === props.slowest ? " (slowest)" : ""}
          </option>
        ))}
      </select>
    </label>
  );
}

const PATTERNS: Record<string, number> = { trainer: 0, server: 1, supervisor: 2, sent: 0, received: 1 };

/** Curves of one worker have one colour, and the kind of a curve its pattern. A stack has a colour for every part. */
function line(curves: Curves, name: string, label: string, i: number): Line {
  const series = curves.get(name);
  const [group, worker, kind = ""] = name.split("/");
  const pattern = group === "work" ? undefined : PATTERNS[kind];
  const colour = pattern === undefined ? i : Number(worker);
  return { label, colour: colour % 8, dash: pattern ?? Math.floor(i / 8), x: series?.x ?? [], y: series?.y ?? [] };
}

function cores(value: number): string {
  return value.toFixed(2);
}

function bytesLabel(name: string): string {
  const [, worker, way] = name.split("/");
  return `worker ${worker} ${way}`;
}

function processLabel(name: string): string {
  const [, worker, role] = name.split("/");
  return `${role} ${worker}`;
}

function Processes({ detail }: { detail: Detail }) {
  const total = detail.processes.reduce((sum, each) => sum + each.memory, 0);
  return (
    <Card
      title={detail.run.state === "running" ? "Processes now" : "Processes, as last reported"}
      aside={
        <span class="quiet">{`${plural(detail.processes.length, "process").replace("processs", "processes")}, ${bytes(total)}`}</span>
      }
    >
      <div class="table-scroll">
        <table>
          <thead>
            <tr>
              <th>Worker</th>
              <th>Role</th>
              <th class="number">Memory</th>
              <th class="number">CPU</th>
            </tr>
          </thead>
          <tbody>
            {detail.processes.map((each) => (
              <tr key={`${each.worker} ${each.role}`}>
                <td>{each.worker}</td>
                <td>{each.role}</td>
                <td class="number">{bytes(each.memory)}</td>
                <td class="number">{`${each.cpu.toFixed(2)} cores`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
