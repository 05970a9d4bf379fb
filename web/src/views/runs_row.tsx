/** One run in the table. The whole row opens it. */

import type { Run } from "../api";
import { ago, count, dollars, duration, measure, moment, speed } from "../format";
import { memo } from "../parts/memo";
import { StateBadge } from "../parts/state";
import { go, runAddress } from "../route";
import { now, toggle } from "../state";

export const RunRow = memo(function RunRow({ run, picked }: { run: Run; picked: boolean }) {
  const open = (event: MouseEvent) => {
    if ((event.target as HTMLElement).closest("a, label, input") || getSelection()?.toString()) return;
    go(runAddress(run.id));
  };
  const metric = run.metric;
  return (
    <tr class={picked ? "picked" : ""} onClick={open}>
      <td class="pick">
        <label>
          <input
            type="checkbox"
            checked={picked}
            onChange={() => toggle(run.id)}
            aria-label={`Choose ${run.name} to compare`}
          />
        </label>
      </td>
      <td class="col-name">
        <a href={runAddress(run.id)} onKeyDown={(event) => event.key === "x" && toggle(run.id)}>
          {run.name}
        </a>
        {run.problem ? (
          <span class="problem" title={run.problem}>
            {run.problem}
          </span>
        ) : (
          <span class="place" title={run.place}>
            {run.place}
          </span>
        )}
      </td>
      <td class="col-state">
        <StateBadge state={run.state} />
      </td>
      <td class="number col-metric">
        {metric?.value != null && (
          <>
            <span class="quiet metric-name">{metric.name}</span> {measure(metric.value)}
          </>
        )}
      </td>
      <td class="number col-best" title={metric?.bestPass != null ? `in pass ${metric.bestPass}` : undefined}>
        {metric?.best != null && <strong>{measure(metric.best)}</strong>}
      </td>
      <td class="number col-passes">{count(run.passes)}</td>
      <td class="number col-seconds">{duration(run.seconds)}</td>
      <td class="number col-samplesPerSecond">{speed(run.samplesPerSecond)}</td>
      <td class="number col-workers">{count(run.workers)}</td>
      <td class="number col-dollars">{dollars(run.dollars)}</td>
      <td class="number col-started" title={moment(run.started)}>
        <Ago time={run.started} />
      </td>
    </tr>
  );
});

/** Only this text ticks, not the row. */
function Ago({ time }: { time: number | null }) {
  return <>{ago(time, now.value)}</>;
}
