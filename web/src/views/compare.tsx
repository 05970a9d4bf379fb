/** Several runs: their curves over each other, and what differs in their flags and configs. */
import { useEffect, useState } from "preact/hooks";
import type { Comparison, Detail, Run, Series } from "../api";
import { Chart } from "../chart/chart";
import { Swatch } from "../chart/legend";
import { chartWidth } from "../chart/series";
import { count, duration, measure, speed } from "../format";
import { Card, Check, Empty, Loading, Note } from "../parts/bits";
import { StateBadge } from "../parts/state";
import { runAddress } from "../route";
import { fetchComparison, fetchDetail, fetchSeries, NotFound, type Range } from "../source";
import { runs } from "../state";
import { moved, movedRange, origin, xAxis } from "./axis";
import { axis, byMetric, CurveTools, log, smoothing } from "./curves";

const REFRESH = 3000;

export function CompareView({ ids }: { ids: string[] }) {
  const list = ids.join(",");
  const [details, setDetails] = useState<Detail[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setDetails(null);
    Promise.all(ids.map(ifThere))
      .then((found) => setDetails(found.filter((each) => each !== null)))
      .catch((error: Error) => setProblem(error.message));
  }, [list]);
  if (problem)
    return (
      <Empty title="These runs cannot be compared" tone="error">
        <p>{problem}</p>
        <a href="#/">All runs</a>
      </Empty>
    );
  if (!details) return <Loading what="the runs" />;
  return (
    <main id="main" class="compare">
      <div class="view-head">
        <h1>Compare</h1>
        <a href="#/">Choose other runs</a>
      </div>
      {details.length < ids.length && <Note tone="warn">Some of these runs are gone and are left out.</Note>}
      <Overview details={details} />
      <Overlay details={details} />
      <Differences ids={details.map((each) => each.run.id)} />
    </main>
  );
}

async function ifThere(id: string): Promise<Detail | null> {
  try {
    return await fetchDetail(id);
  } catch (error) {
    if (error instanceof NotFound) return null;
    throw error;
  }
}

function Overview({ details }: { details: Detail[] }) {
  const shown = details.map((each): Run => runs.value.get(each.run.id) ?? each.run);
  return (
    <div class="card table-frame">
      <table class="compare-runs">
        <thead>
          <tr>
            <th>Run</th>
            <th>State</th>
            <th class="number">Best</th>
            <th class="number">Passes</th>
            <th class="number">Duration</th>
            <th class="number">Samples/s</th>
            <th class="number">Workers</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((run, i) => (
            <tr key={run.id}>
              <td class="col-name">
                <Swatch colour={i} dash={Math.floor(i / 8)} /> <a href={runAddress(run.id)}>{run.name}</a>
              </td>
              <td>
                <StateBadge state={run.state} />
              </td>
              <td class="number">{run.metric ? `${run.metric.name} ${measure(run.metric.best)}` : "–"}</td>
              <td class="number">{count(run.passes)}</td>
              <td class="number">{duration(run.seconds)}</td>
              <td class="number">{speed(run.samplesPerSecond)}</td>
              <td class="number">{count(run.workers)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** "train/rmse" of all runs is one chart, "test/rmse" another. */
function Overlay({ details }: { details: Detail[] }) {
  const [range, setRange] = useState<Range | null>(null);
  const names = [...new Set(details.flatMap((each) => byMetric(each.series).flatMap(([, list]) => list)))];
  const curves = useSeveral(details, names, range);
  useEffect(() => setRange(null), [axis.value]);
  return (
    <section aria-label="Curves" class="stack">
      <CurveTools hint="Drag to zoom, double-click to reset" />
      <div class="charts">
        {names.map((name) => (
          <Chart
            key={name}
            title={title(name)}
            lines={details.flatMap(({ run }, i) => {
              const series = curves.get(run.id)?.find((each) => each.name === name);
              const line = {
                label: run.name,
                colour: i % 8,
                dash: Math.floor(i / 8),
                x: series?.x ?? [],
                y: series?.y ?? [],
              };
              return series?.x.length ? [moved(line, origin(axis.value, run.started))] : [];
            })}
            x={xAxis(axis.value)}
            log={log.value}
            smoothing={smoothing.value}
            range={range}
            onZoom={setRange}
            sync="compare"
            height={250}
          />
        ))}
      </div>
    </section>
  );
}

function title(name: string): string {
  if (!name.includes("/")) return name;
  const [kind, ...rest] = name.split("/");
  return `${rest.join("/")}, ${kind}`;
}

function useSeveral(details: Detail[], names: string[], range: Range | null): Map<string, Series[]> {
  const [found, setFound] = useState<Map<string, Series[]>>(new Map());
  const [turn, setTurn] = useState(0);
  const growing = details.some(({ run }) => runs.value.get(run.id)?.state === "running");
  useEffect(() => {
    if (!growing) return;
    const timer = setInterval(() => setTurn((value) => value + 1), REFRESH);
    return () => clearInterval(timer);
  }, [growing]);
  useEffect(() => {
    const stop = new AbortController();
    const width = chartWidth();
    const ask = async ({ run, series }: Detail): Promise<[string, Series[]]> => {
      const there = names.filter((name) => series.some((each) => each.name === name));
      const wanted = movedRange(range, origin(axis.value, run.started));
      return [run.id, await fetchSeries(run.id, there, axis.value, wanted, width, stop.signal)];
    };
    Promise.all(details.map(ask))
      .then((answers) => setFound(new Map(answers)))
      .catch(() => {}); // a run that vanished keeps its last curve; the list says that it is gone
    return () => stop.abort();
  }, [details, names.join("\n"), axis.value, range?.from, range?.to, turn]);
  return found;
}

function Differences({ ids }: { ids: string[] }) {
  const [answer, setAnswer] = useState<Comparison | null>(null);
  const [all, setAll] = useState(false);
  useEffect(() => {
    fetchComparison(ids)
      .then(setAnswer)
      .catch(() => setAnswer(null));
  }, [ids.join(",")]);
  if (!answer) return null;
  const shown = answer.flags.filter((flag) => all || flag.differs);
  const { difference, values } = answer.config;
  return (
    <>
      <Card title="Flags" aside={<Check label="Also what is the same" checked={all} onChange={setAll} />}>
        {shown.length === 0 ? (
          <p class="quiet">{answer.flags.length ? "All flags are the same." : "These runs have recorded no flags."}</p>
        ) : (
          <div class="table-scroll">
            <table class="differences">
              <thead>
                <tr>
                  <th>Flag</th>
                  {answer.runs.map((run, i) => (
                    <th key={run.id}>
                      <Swatch colour={i} dash={Math.floor(i / 8)} /> {run.name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {shown.map((flag) => (
                  <tr key={flag.name} class={flag.differs ? "differs" : ""}>
                    <td>
                      <code>{flag.name}</code>
                    </td>
                    {flag.values.map((value, i) => (
                      <td key={i}>{value === null ? <span class="quiet">not given</span> : <code>{value}</code>}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
      <Card title="Config" aside={<span class="quiet">{answer.runs.length > 2 ? "of the first two runs" : ""}</span>}>
        {difference ? (
          <pre class="lines diff">
            {difference.split("\n").map((line, i) => (
              <span key={i} class={diffClass(line)}>
                {line}
                {"\n"}
              </span>
            ))}
          </pre>
        ) : (
          <p class="quiet">
            {values.every((value) => value === values[0]) ? "The configs are the same." : "The configs differ."}
          </p>
        )}
      </Card>
    </>
  );
}

function diffClass(line: string): string {
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("@@")) return "diff-head";
  return line.startsWith("+") ? "diff-new" : line.startsWith("-") ? "diff-old" : "";
}
