/** Where each worker's round goes: one bar a worker, whose parts add up to the round. */
import type { Detail, Work } from "../api";
import { bytes, duration, percent } from "../format";
import { Card } from "../parts/bits";

export const PARTS = [
  { key: "computing", title: "computing", colour: 0 },
  { key: "waiting", title: "waiting for others", colour: 1 },
  { key: "transfer", title: "sending and receiving", colour: 2 },
  { key: "data", title: "waiting for data", colour: 3 },
] as const;

export function Rounds({ detail }: { detail: Detail }) {
  const rows = [...detail.work].sort((a, b) => a.worker - b.worker);
  const longest = Math.max(...rows.map(perRound));
  return (
    <Card title="Where a round goes" aside={<span class="quiet">the newest report of every worker</span>}>
      <p class="finding">{finding(detail, rows)}</p>
      <div class="legend">
        {PARTS.map((part) => (
          <span class="legend-item" key={part.key}>
            <span class={`block fill-c${part.colour}`} />
            {part.title}
          </span>
        ))}
      </div>
      <ul class="rounds">
        {rows.map((work) => (
          <li key={work.worker} class={work.worker === detail.slowest?.worker && rows.length > 1 ? "slowest" : ""}>
            <span class="rounds-name">
              worker {work.worker} {work.worker === detail.slowest?.worker && rows.length > 1 && <em>slowest</em>}
            </span>
            <span class="rounds-track">
              <span class="rounds-bar" style={{ width: `${(100 * perRound(work)) / longest}%` }}>
                {PARTS.map((part) => (
                  <span
                    key={part.key}
                    class={`fill-c${part.colour}`}
                    style={{ width: `${share(work, part.key) * 100}%` }}
                    title={`${part.title}: ${duration(work[part.key] / Math.max(1, work.rounds))}, ${percent(share(work, part.key))}`}
                  >
                    {share(work, part.key) > 0.09 && <span class="rounds-share">{percent(share(work, part.key))}</span>}
                  </span>
                ))}
              </span>
            </span>
            <span class="rounds-total number">
              {duration(perRound(work))}
              <span class="quiet">
                {" "}
                ↑ {bytes(work.bytesSent / Math.max(1, work.rounds))} ↓{" "}
                {bytes(work.bytesReceived / Math.max(1, work.rounds))}
              </span>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function perRound(work: Work): number {
  return work.seconds / Math.max(1, work.rounds);
}

function share(work: Work, part: (typeof PARTS)[number]["key"]): number {
  return work.seconds > 0 ? work[part] / work.seconds : 0;
}

/** What the bars say, in a sentence or two. */
function finding(detail: Detail, rows: Work[]): string {
  const slowest = rows.find((work) => work.worker === detail.slowest?.worker);
  if (!slowest || rows.length < 2) {
    const [only] = rows;
    if (!only) return "";
    const [most] = [...PARTS].sort((a, b) => only[b.key] - only[a.key]);
    return `Worker ${only.worker} spends most of a round ${most!.title}: ${percent(share(only, most!.key))}.`;
  }
  const others = rows.filter((work) => work !== slowest);
  const waiting = others.reduce((sum, work) => sum + share(work, "waiting"), 0) / others.length;
  const first = `Worker ${slowest.worker} is the slowest: it computes for ${percent(share(slowest, "computing"))} of its round.`;
  if (waiting < 0.05) return `${first} The others hardly wait for it.`;
  return `${first} The others wait ${percent(waiting)} of theirs.`;
}
