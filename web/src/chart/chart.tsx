/** A chart of lines (uPlot), with its title, legend, values under the pointer, zoom and keyboard. It knows nothing of runs. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { measure } from "../format";
import type { Range } from "../source";
import { theme } from "../theme";
import { Legend } from "./legend";
import { type Line, positive, smooth, stack } from "./lines";
import { type Look, options } from "./options";

export interface ChartProps {
  title: string;
  aside?: ComponentChildren;
  lines: Line[];
  x: { label: string; format: (value: number) => string; increments?: number[] };
  y?: (value: number) => string;
  yShort?: (value: number) => string;
  log?: boolean;
  smoothing?: number;
  stacked?: boolean;
  fromZero?: boolean;
  baseline?: { label: string; value: number } | null;
  range: Range | null;
  onZoom: (range: Range | null) => void;
  onPick?: (x: number) => void;
  sync: string;
  height?: number;
  empty?: string;
}

export interface Hover {
  x: number;
  values: (number | null)[];
}

type Joined = (number[] | (number | null | undefined)[])[];

export function Chart(props: ChartProps) {
  const { log = false, smoothing = 0, stacked = false, range } = props;
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const lines = useMemo(() => props.lines.filter((line) => !hidden.has(line.label)), [props.lines, hidden]);
  const visible = useRef(lines);
  visible.current = lines;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [hover, setHover] = useState<Hover | null>(null);
  const mode = theme.value;

  const shown = useMemo(() => (stacked ? stack(lines) : lines), [lines, stacked]);
  const data = useMemo(() => prepare(shown, log, smoothing), [shown, log, smoothing]);
  const drawn = useRef(data);
  drawn.current = data;
  const look: Look = { lines: shown, faint: smoothing > 0, stacked, log, fromZero: props.fromZero ?? false };
  const structure = JSON.stringify([
    shown.map((line) => [line.label, line.colour, line.dash]),
    smoothing > 0,
    stacked,
    log,
    mode,
    props.x.label,
    props.baseline,
  ]);
  const nothing = props.lines.every((line) => line.x.length === 0);

  // Other lines make another plot, before it gets their values.
  useLayoutEffect(() => {
    const element = place.current;
    if (!element || nothing) return;
    const made = new uPlot(options(look, latest, element, readHover), drawn.current as uPlot.AlignedData, element);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth) made.setSize({ width: element.clientWidth, height: latest.current.height ?? 230 });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [structure, nothing]);

  // In the same frame as the words around it.
  useLayoutEffect(() => {
    plot.current?.setData(data as uPlot.AlignedData, true);
  }, [data, range?.from, range?.to]);

  function readHover(u: uPlot): void {
    const { idx, idxs, left } = u.cursor;
    if (idx == null || left == null || left < 0) {
      setHover(null);
      return;
    }
    const raw = visible.current;
    const step = latest.current.smoothing ? 2 : 1;
    const values = raw.map((line, i) => {
      const column = (i + 1) * step;
      const at = idxs?.[column];
      if (at == null) return null;
      return latest.current.stacked
        ? (line.y[at] ?? null)
        : ((u.data[column]![at] as number | null | undefined) ?? null);
    });
    setHover({ x: u.data[0]![idx]!, values });
  }

  function key(event: KeyboardEvent): void {
    const u = plot.current;
    if (!u || event.ctrlKey || event.metaKey || event.altKey) return;
    const xs = u.data[0]!;
    const scale = u.scales.x!;
    const idx = u.cursor.idx ?? xs.length - 1;
    const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };
    const move = moves[event.key];
    if (move !== undefined) {
      const next = Math.min(xs.length - 1, Math.max(0, idx + move));
      u.setCursor({ left: u.valToPos(xs[next]!, "x"), top: u.bbox.height / devicePixelRatio / 2 });
    } else if (event.key === "+" || event.key === "-") {
      const middle = xs[idx] ?? 0;
      const half = ((scale.max! - scale.min!) / 2) * (event.key === "+" ? 0.5 : 2);
      props.onZoom({ from: middle - half, to: middle + half });
    } else if (event.key === "0") props.onZoom(null);
    else if (event.key === "Enter" && props.onPick && u.cursor.idx != null) props.onPick(xs[u.cursor.idx]!);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return (
    <figure class="card chart">
      <figcaption class="chart-head">
        <h3>{props.title}</h3>
        {props.aside}
        {range && (
          <button type="button" class="small" onClick={() => props.onZoom(null)}>
            Reset zoom
          </button>
        )}
      </figcaption>
      {nothing ? (
        <p class="chart-empty quiet">{props.empty ?? "Nothing recorded yet. Points appear as they are written."}</p>
      ) : (
        <>
          <Legend
            lines={props.lines}
            hidden={hidden}
            onToggle={(label) => setHidden(toggled(hidden, label, props.lines.length))}
            hover={hover}
            x={props.x}
            y={props.y ?? measure}
          />
          <div
            ref={place}
            class="plot"
            role="application"
            tabIndex={0}
            aria-label={`${props.title}, chart. Left and right move along it, plus and minus zoom, 0 shows all${props.onPick ? ", Enter opens the log there" : ""}.`}
            onKeyDown={key}
          />
        </>
      )}
    </figure>
  );
}

/** One line at least stays. */
function toggled(hidden: ReadonlySet<string>, label: string, lines: number): ReadonlySet<string> {
  const next = new Set(hidden);
  if (!next.delete(label)) next.add(label);
  return next.size < lines ? next : hidden;
}

/** One x for all lines. When smoothed, each line follows its unsmoothed self. */
function prepare(lines: Line[], log: boolean, smoothing: number): Joined {
  const tables = lines.map((line) => {
    const y = log ? positive(line.y) : line.y;
    return (smoothing > 0 ? [line.x, y, smooth(y, smoothing)] : [line.x, y]) as uPlot.AlignedData;
  });
  if (tables.length === 0) return [[]];
  return (tables.length === 1 ? tables[0]! : uPlot.join(tables)) as unknown as Joined;
}
