/** Names of lines, each with its last value, or with the value under the pointer. A click hides a line or shows it again. */
import type { ChartProps, Hover } from "./chart";
import type { Line } from "./lines";

interface LegendProps {
  lines: Line[];
  hidden: ReadonlySet<string>;
  onToggle: (label: string) => void;
  hover: Hover | null;
  x: ChartProps["x"];
  y: (value: number) => string;
}

export function Legend({ lines, hidden, onToggle, hover, x, y }: LegendProps) {
  let shown = 0;
  return (
    <div class="legend">
      {lines.map((line, i) => {
        const off = hidden.has(line.label);
        const value = off ? null : hover ? hover.values[shown++] : last(line.y);
        const content = (
          <>
            <Swatch colour={line.colour} dash={line.dash ?? 0} />
            <span class="legend-name" title={line.label}>
              {line.label}
            </span>
            <span class="legend-value">{value == null ? "–" : y(value)}</span>
          </>
        );
        if (lines.length === 1)
          return (
            <span class="legend-item" key={i}>
              {content}
            </span>
          );
        return (
          <button
            type="button"
            class="legend-item"
            key={i}
            aria-pressed={!off}
            title={off ? `Show ${line.label}` : `Hide ${line.label}`}
            onClick={() => onToggle(line.label)}
          >
            {content}
          </button>
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
