/** One run: what it is, how it stands, and its sections. */
import { useEffect, useRef } from "preact/hooks";
import type { Detail } from "../api";
import { ago, clock, count, dollars, duration, measure, plural, speed } from "../format";
import { Empty, Loading, Note, Stat } from "../parts/bits";
import { StateBadge } from "../parts/state";
import { type Route, runAddress, SECTIONS, type Section } from "../route";
import { exported } from "../source";
import { detail, detailTrouble, gone, loadDetail, now } from "../state";
import { watchRun } from "../stream";
import { CheckpointsView } from "./checkpoints";
import { CostView } from "./cost";
import { CurvesView } from "./curves";
import { LogsView } from "./logs";
import { ModelView } from "./model";
import { SpeedView } from "./speed";
import { FirstFailure, WorkersView } from "./workers";

const TITLES: Record<Section, string> = {
  curves: "Curves",
  speed: "Speed",
  workers: "Workers",
  model: "Model",
  checkpoints: "Checkpoints",
  logs: "Logs",
  cost: "Cost",
};

const VIEWS: Record<Section, (props: { detail: Detail; chosen: URLSearchParams }) => preact.JSX.Element> = {
  curves: CurvesView,
  speed: SpeedView,
  workers: WorkersView,
  model: ModelView,
  checkpoints: CheckpointsView,
  logs: LogsView,
  cost: CostView,
};

export function RunView({ route }: { route: Extract<Route, { view: "run" }> }) {
  const { id, section } = route;
  useEffect(() => {
    void loadDetail(id);
    watchRun(id);
    return () => watchRun(null);
  }, [id]);
  const shown = detail.value?.run.id === id ? detail.value : null;
  if (!shown) {
    return detailTrouble.value ? <NotReadable id={id} error={detailTrouble.value} /> : <Loading what="the run" />;
  }
  const View = VIEWS[section];
  return (
    <main class="run" id="main">
      <Head detail={shown} />
      {gone.value.has(id) && (
        <Note tone="warn">
          This run is gone: its directory was deleted or moved. You see what was last read.{" "}
          <a href="#/">Back to all runs</a>
        </Note>
      )}
      <Tabs id={id} section={section} />
      {shown.failure && section !== "workers" && <FirstFailure detail={shown} brief />}
      <View key={id} detail={shown} chosen={route.chosen} />
    </main>
  );
}

function NotReadable({ id, error }: { id: string; error: Error }) {
  return (
    <Empty title="This run cannot be shown" tone="error">
      <p>{error.message}</p>
      <p>
        <button type="button" onClick={() => loadDetail(id)}>
          Try again
        </button>{" "}
        <a href="#/">All runs</a>
      </p>
    </Empty>
  );
}

function Head({ detail }: { detail: Detail }) {
  const { run } = detail;
  return (
    <header class="run-head">
      <div class="run-title">
        <h1>{run.name}</h1>
        <StateBadge state={run.state} />
        {run.state === "silent" && <span class="quiet">last heard {ago(run.updated, now.value)}</span>}
      </div>
      <p class="run-place quiet">
        {run.place}
        {detail.config.file && ` · ${detail.config.file}`}
        {run.started != null && ` · started ${ago(run.started, now.value)}, at ${clock(run.started)}`}
      </p>
      {run.problem && !detail.failure && <Note tone={run.state === "failed" ? "error" : "warn"}>{run.problem}</Note>}
      <Figures detail={detail} />
    </header>
  );
}

function Figures({ detail }: { detail: Detail }) {
  const { run } = detail;
  const live = (run.state === "running" || run.state === "silent") && !exported;
  const seconds = live && run.started != null ? now.value - run.started : run.seconds;
  const cost = detail.passes.at(-1)?.train.cost;
  return (
    <dl class="stats">
      {run.metric ? (
        <Stat
          name={`Best ${run.metric.name}`}
          value={measure(run.metric.best)}
          note={
            run.metric.bestPass != null ? `pass ${run.metric.bestPass}, now ${measure(run.metric.value)}` : undefined
          }
        />
      ) : (
        <Stat name="Cost" value={measure(cost)} note="of the last pass" />
      )}
      <Stat
        name="Passes"
        value={count(run.passes)}
        note={run.round != null ? `round ${count(run.round)}` : undefined}
      />
      <Stat
        name="Samples/s"
        value={speed(run.samplesPerSecond)}
        note={run.samples != null ? `${count(run.samples)} in all` : undefined}
      />
      <Stat
        name="Workers"
        value={count(run.workers)}
        note={detail.slowest && (run.workers ?? 0) > 1 ? `slowest: worker ${detail.slowest.worker}` : undefined}
      />
      <Stat name="Duration" value={duration(seconds)} />
      {detail.atRisk && live && (
        <Stat
          name="At risk"
          value={duration(detail.atRisk.seconds)}
          note={plural(detail.atRisk.rounds, "round")}
          tone={detail.atRisk.seconds > 600 ? "warn" : undefined}
        />
      )}
      {detail.cost && (
        <Stat name="Cost" value={dollars(detail.cost.dollars)} note={`${dollars(detail.cost.perHour)} an hour`} />
      )}
    </dl>
  );
}

function Tabs({ id, section }: { id: string; section: Section }) {
  const bar = useRef<HTMLElement>(null);
  // On a narrow screen the section that is shown may be out of sight.
  useEffect(() => {
    const shown = bar.current?.querySelector<HTMLElement>("[aria-current]");
    if (shown) bar.current!.scrollLeft = shown.offsetLeft - bar.current!.offsetLeft - 40;
  }, [section]);
  return (
    <nav ref={bar} class="tabs" aria-label="Sections of this run">
      {SECTIONS.map((each, i) => (
        <a
          key={each}
          href={runAddress(id, each)}
          aria-current={each === section ? "page" : undefined}
          data-key={String(i + 1)}
        >
          {TITLES[each]}
        </a>
      ))}
    </nav>
  );
}
