/** How uPlot draws our charts: axes, grid, colours, pointer, baseline. */
import type uPlot from "uplot";
import { measure, short } from "../format";
import { colour, dash, token } from "../theme";
import type { ChartProps } from "./chart";
import { type Line, nearest } from "./lines";

export interface Look {
  lines: Line[];
  faint: boolean; // each line is preceded by its unsmoothed self
  stacked: boolean;
  log: boolean;
  fromZero: boolean;
}

const FONT = "11px Inter, system-ui, sans-serif";

export function options(
  look: Look,
  latest: { current: ChartProps },
  element: HTMLElement,
  onHover: (u: uPlot) => void,
): uPlot.Options {
  const ink = token("ink-3");
  const grid = { stroke: token("grid"), width: 1 };
  const axis = { stroke: ink, font: FONT, grid, ticks: { show: false }, gap: 6 };
  const increments = latest.current.x.increments;
  return {
    width: element.clientWidth || 600,
    height: latest.current.height ?? 230,
    padding: [10, 12, 0, 0],
    legend: { show: false },
    series: [{}, ...series(look)],
    ...(look.stacked ? { bands: bands(look) } : {}),
    scales: {
      x: { time: false, range: (_, min, max) => xRange(latest.current.range, min, max) },
      y: {
        distr: look.log ? 3 : 1,
        ...(look.log ? {} : { range: (_, min, max) => yRange(latest.current, look, min, max) }),
      },
    },
    axes: [
      {
        ...axis,
        size: 34,
        space: 70,
        values: (_, ticks) => ticks.map((tick) => latest.current.x.format(tick)),
        ...(increments ? { incrs: increments } : {}),
      },
      {
        ...axis,
        size: 58,
        space: 34,
        values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : (latest.current.yShort ?? short)(tick))),
      },
    ],
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { size: 7, width: 2, fill: token("card") },
      sync: { key: latest.current.sync, setSeries: false },
      dataIdx: (u, column, at) =>
        (column === 0 ? at : nearest(u.data[column] as (number | null)[], u.data[0], at)) as number,
      bind: { dblclick: () => () => zoomOut(latest) },
    },
    hooks: {
      setCursor: [onHover],
      setSelect: [(u) => zoomIn(u, latest)],
      ready: [(u) => listenForPick(u, latest)],
      draw: [(u) => drawBaseline(u, latest.current)],
    },
  };
}

function series(look: Look): uPlot.Series[] {
  return look.lines.flatMap((line): uPlot.Series[] => {
    const stroke = colour(line.colour);
    const pattern = line.dash ? dash(line.dash * 8) : [];
    const main: uPlot.Series = {
      label: line.label,
      stroke,
      width: look.stacked ? 1 : 1.75,
      spanGaps: true,
      dash: pattern,
    };
    if (look.stacked) main.fill = `${stroke}${stroke.length === 7 ? "b0" : ""}`;
    const points = { show: (u: uPlot, column: number) => few(u, column), size: 5, fill: stroke };
    if (!look.faint) return [{ ...main, points }];
    const faint: uPlot.Series = { stroke: `${stroke}40`, width: 1, spanGaps: true, points: { show: false } };
    return [faint, { ...main, points }];
  });
}

/** A line of few values shows each of them. */
function few(u: uPlot, column: number): boolean {
  let present = 0;
  for (const value of u.data[column]!) if (value != null && ++present > 40) return false;
  return true;
}

function bands(look: Look): uPlot.Band[] {
  return look.lines.slice(1).map((_, i): uPlot.Band => ({ series: [i + 2, i + 1] }));
}

function xRange(range: ChartProps["range"], min: number, max: number): [number, number] {
  if (range) return [range.from, range.to];
  return min === max ? [min - 1, max + 1] : [min, max];
}

function yRange(props: ChartProps, look: Look, min: number | null, max: number | null): [number, number] {
  let low = min ?? 0;
  let high = max ?? 1;
  if (props.baseline) {
    low = Math.min(low, props.baseline.value);
    high = Math.max(high, props.baseline.value);
    low -= (high - low) * 0.06; // for its name, which stands below the line
  }
  if (look.stacked || look.fromZero) low = Math.min(0, low);
  if (low === 0 && high === 0) return [0, 1];
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return [low === 0 ? 0 : low - margin, high + margin];
}

function zoomIn(u: uPlot, latest: { current: ChartProps }): void {
  const { left, width } = u.select;
  if (width < 4) return;
  const range = { from: u.posToVal(left, "x"), to: u.posToVal(left + width, "x") };
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  latest.current.onZoom(range);
}

function zoomOut(latest: { current: ChartProps }): null {
  latest.current.onZoom(null);
  return null;
}

/** A click that was not a drag. */
function listenForPick(u: uPlot, latest: { current: ChartProps }): void {
  let down = 0;
  u.over.addEventListener("pointerdown", (event) => {
    down = event.clientX;
  });
  u.over.addEventListener("click", (event) => {
    const index = u.cursor.idx;
    if (Math.abs(event.clientX - down) < 4 && index != null) latest.current.onPick?.(u.data[0][index]!);
  });
}

function drawBaseline(u: uPlot, props: ChartProps): void {
  if (!props.baseline) return;
  const y = Math.round(u.valToPos(props.baseline.value, "y", true));
  const { left, width, top, height } = u.bbox;
  if (y < top || y > top + height) return;
  const ratio = devicePixelRatio;
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = token("ink-2");
  ctx.lineWidth = 1.25 * ratio;
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  ctx.font = `${11 * ratio}px Inter, system-ui, sans-serif`;
  ctx.textAlign = "right";
  const below = top + height - y > 18 * ratio;
  ctx.textBaseline = below ? "top" : "bottom";
  ctx.fillText(
    `${props.baseline.label} ${measure(props.baseline.value)}`,
    left + width - 4 * ratio,
    y + (below ? 4 : -3) * ratio,
  );
  ctx.restore();
}
