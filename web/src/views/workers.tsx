/** What happened to each worker: phases, restarts and their reasons. The first failure comes first: later ones often follow from it. */
import { useState } from "preact/hooks";
import type { Change, Detail } from "../api";
import { ago, clock, moment } from "../format";
import { Card, Check, Empty } from "../parts/bits";
import { runAddress } from "../route";
import { now } from "../state";
import { Timeline } from "./timeline";

export function WorkersView({ detail }: { detail: Detail }) {
  if (!detail.failure && detail.spans.length === 0 && detail.changes.length === 0)
    return (
      <Empty title="Nothing recorded about workers">
        <p>Phases and restarts are recorded while a run with several workers trains. This one has no such record.</p>
      </Empty>
    );
  return (
    <section aria-label="Workers" class="stack">
      {detail.failure && <FirstFailure detail={detail} />}
      {detail.spans.length > 0 && <Timeline detail={detail} />}
      <Changes detail={detail} />
    </section>
  );
}

export function FirstFailure({ detail, brief = false }: { detail: Detail; brief?: boolean }) {
  const failure = detail.failure!;
  const who = failure.worker === null ? failure.role : `worker ${failure.worker}, ${failure.role}`;
  const several = detail.changes.filter((change) => change.kind === "failed").length > 1;
  const over = detail.run.state === "running" || detail.run.state === "done";
  return (
    <section class={`failure ${over ? "failure-over" : ""}`} aria-label="First failure">
      <h3>
        {over ? "It failed once, and recovered" : several ? "First failure" : "Failure"}: {failure.cause}
      </h3>
      <p class="quiet">
        {who}
        {failure.time !== null && ` · ${moment(failure.time)}`}
        {brief && (
          <>
            {" · "}
            <a href={runAddress(detail.run.id, "workers")}>Details</a>
          </>
        )}
      </p>
      {failure.advice && <p class="advice">{failure.advice}</p>}
      {!brief && failure.log && (
        <>
          <h4>Its last lines</h4>
          <pre class="lines">{failure.log}</pre>
        </>
      )}
    </section>
  );
}

const KINDS: Record<Change["kind"], string> = {
  start: "Start",
  restart: "Restart",
  checkpoint: "Checkpoint",
  snapshot: "Snapshot",
  note: "Note",
  failed: "Failure",
  done: "Done",
};

function Changes({ detail }: { detail: Detail }) {
  const [all, setAll] = useState(false);
  const routine = (change: Change) => change.kind === "checkpoint" || change.kind === "snapshot";
  const shown = detail.changes.filter((change) => all || !routine(change)).slice(-500);
  shown.reverse();
  return (
    <Card title="What happened" aside={<Check label="With checkpoints" checked={all} onChange={setAll} />}>
      {shown.length === 0 ? (
        <p class="quiet">Nothing out of the ordinary.</p>
      ) : (
        <ol class="changes">
          {shown.map((change, i) => (
            <li key={`${change.time} ${i}`} class={`change change-${change.kind}`}>
              <time title={moment(change.time)}>{clock(change.time)}</time>
              <span class="change-kind">{KINDS[change.kind]}</span>
              <span class="change-text">
                {change.worker !== null && <strong>worker {change.worker} </strong>}
                {change.text}
              </span>
              <span class="quiet change-ago">{ago(change.time, now.value)}</span>
            </li>
          ))}
        </ol>
      )}
    </Card>
  );
}
