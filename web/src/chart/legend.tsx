/** Names of lines, each with its last value, or with the value under the pointer. */
import type { ChartProps, Hover } from "./chart";
import type { Line } from "./lines";

interface LegendProps {
  lines: Line[];
  hover: Hover | null;
  x: ChartProps["x"];
  y: (value: number) => string;
}

export function Legend({ lines, hover, x, y }: LegendProps) {
  return (
    <div class="legend">
      {lines.map((line, i) => {
        const value = hover ? hover.values[i] : last(line.y);
        return (
          <span class="legend-item" key={i}>
            <Swatch colour={line.colour} dash={line.dash ?? 0} />
            <span class="legend-name" title={line.label}>
              {line.label}
            </span>
            <span class="legend-value">{value == null ? "–" : y(value)}</span>
          </span>
        );
      })}
      <span class="legend-at quiet">{hover ? `${x.label} ${x.format(hover.x)}` : ""}</span>
    </div>
  );
}

export function Swatch({ colour, dash }: { colour: number; dash: number }) {
  const pattern = ["", "5 3", "2 2", "6 2 1 2"][dash % 4];
  return (
    <svg class="swatch" width="18" height="8" aria-hidden="true">
      <line
        x1="1"
        y1="4"
        x2="17"
        y2="4"
        class={`stroke-c${colour % 8}`}
        stroke-width="2.5"
        stroke-dasharray={pattern}
      />
    </svg>
  );
}

function last(values: (number | null)[]): number | null {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] != null) return values[i]!;
  return null;
}
