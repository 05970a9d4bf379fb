/** A row for every worker, coloured by what it was doing; marks where something changed. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Change, Detail, Span } from "../api";
import { clock, duration, elapsed } from "../format";
import { Card } from "../parts/bits";
import { now } from "../state";

const ROW = 30;
const BAR = 18;
const LEFT = 76;
const BOTTOM = 24;
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];
/** A phase has the same colour in every run. What is over, or has not begun, is pale. */
const TINTS: Record<string, string> = {
  training: "c0",
  lost: "c1",
  restoring: "c2",
  loading: "c2",
  testing: "c3",
  starting: "c4",
  importing: "c4",
  ready: "c5",
  saving: "c6",
  waiting: "c7",
  leaving: "c7",
  done: "rest",
};
const MARKS: Partial<Record<Change["kind"], string>> = { restart: "↻", failed: "✕", done: "✓" };
const WORDS: Partial<Record<Change["kind"], string>> = { restart: "restart", failed: "failure", done: "done" };

export function Timeline({ detail }: { detail: Detail }) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [told, setTold] = useState<Span | null>(null);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(Math.max(280, frame.current?.clientWidth ?? 800)));
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const live = detail.run.state === "running";
  const begin = Math.min(...detail.spans.map((span) => span.from));
  const known = Math.max(...detail.spans.map((span) => span.to ?? span.from), detail.run.updated ?? 0);
  const end = Math.max(begin + 1, live ? Math.max(known, now.value) : known);
  const workers = [...new Set(detail.spans.map((span) => span.worker))].sort((a, b) => a - b);
  const phases = [...new Set(detail.spans.map((span) => span.phase))];
  const scale = (time: number) => LEFT + ((time - begin) / (end - begin)) * (width - LEFT - 8);
  const height = workers.length * ROW + BOTTOM;
  const marks = detail.changes.filter((change) => MARKS[change.kind] && change.worker !== null);
  return (
    <Card
      title="Timeline"
      aside={<span class="quiet">{told ? tell(told, end) : `${clock(begin)} to ${clock(end)}`}</span>}
    >
      <div class="legend">
        {phases.map((phase) => (
          <span class="legend-item" key={phase}>
            <span class={`block fill-${tint(phase)}`} />
            {phase}
          </span>
        ))}
        {[...new Set(marks.map((change) => change.kind))].map((kind) => (
          <span class="legend-item" key={kind}>
            {MARKS[kind]} {WORDS[kind]}
          </span>
        ))}
      </div>
      <div ref={frame} class="timeline">
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={`What ${workers.length} workers did over ${duration(end - begin)}`}
        >
          {ticks(end - begin, width).map((tick) => (
            <g key={tick}>
              <line x1={scale(begin + tick)} x2={scale(begin + tick)} y1={0} y2={height - BOTTOM} class="grid-line" />
              <text x={scale(begin + tick)} y={height - 8} class="tick" text-anchor="middle">
                {elapsed(tick)}
              </text>
            </g>
          ))}
          {workers.map((worker, row) => (
            <text key={worker} x={0} y={row * ROW + 20} class="row-name">
              worker {worker}
            </text>
          ))}
          {detail.spans.map((span) => {
            const x = scale(span.from);
            return (
              <rect
                key={`${span.worker} ${span.from} ${span.phase}`}
                class={`span fill-${tint(span.phase)}`}
                x={x}
                y={workers.indexOf(span.worker) * ROW + 6}
                width={Math.max(1.5, scale(span.to ?? end) - x - 0.5)}
                height={BAR}
                rx="3"
                onMouseEnter={() => setTold(span)}
                onMouseLeave={() => setTold(null)}
              >
                <title>{tell(span, end)}</title>
              </rect>
            );
          })}
          {marks.map((change, i) => (
            <g
              key={`${change.time} ${i}`}
              class={`mark mark-${change.kind}`}
              transform={`translate(${scale(change.time)}, ${workers.indexOf(change.worker!) * ROW + 15})`}
            >
              <circle r="8" />
              <text text-anchor="middle" dominant-baseline="central">
                {MARKS[change.kind]}
              </text>
              <title>{`${clock(change.time)} ${change.text}`}</title>
            </g>
          ))}
        </svg>
      </div>
    </Card>
  );
}

function tell(span: Span, end: number): string {
  const still = span.to === null ? ", still" : "";
  return `worker ${span.worker}: ${span.phase} for ${duration((span.to ?? end) - span.from)}${still}, from ${clock(span.from)}`;
}

function tint(phase: string): string {
  return TINTS[phase] ?? "c6";
}

function ticks(seconds: number, width: number): number[] {
  const step = STEPS.find((each) => seconds / each <= width / 90) ?? STEPS.at(-1)!;
  return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, i) => i * step);
}
