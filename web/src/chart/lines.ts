/** What a chart draws, and the arithmetic before it is drawn. Pure. */

export interface Line {
  label: string;
  colour: number; // of the palette
  dash?: number; // which pattern; 0 is a whole line
  x: number[];
  y: (number | null)[];
}

/** So few values, as one a pass, have no noise to smooth: their mean would only be late. */
const FEW = 20;

/** A running mean that forgets: TensorBoard's, which starts without a bias towards zero. `weight` is between 0 and 1. */
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0 || values.length < FEW) return values;
  let mean = 0;
  let seen = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    mean = mean * weight + value * (1 - weight);
    seen++;
    return mean / (1 - weight ** seen);
  });
}

/** What a logarithmic scale cannot show is left out. */
export function positive(values: (number | null)[]): (number | null)[] {
  return values.map((value) => (value !== null && value > 0 ? value : null));
}

/** Each line on top of those before it. All have the same x. */
export function stack(lines: Line[]): Line[] {
  let below: number[] = [];
  return lines.map((line) => {
    const y = line.y.map((value, i) => (below[i] ?? 0) + (value ?? 0));
    below = y;
    return { ...line, y };
  });
}

/** The index of the value nearest to `index` that is there; null if the line has none. */
export function nearest(
  values: ArrayLike<number | null | undefined>,
  xs: ArrayLike<number>,
  index: number,
): number | null {
  if (values[index] != null) return index;
  let left = index - 1;
  let right = index + 1;
  while (left >= 0 && values[left] == null) left--;
  while (right < values.length && values[right] == null) right++;
  if (left < 0) return right < values.length ? right : null;
  if (right >= values.length) return left;
  return xs[index]! - xs[left]! <= xs[right]! - xs[index]! ? left : right;
}

/** Joins new points to those that are there; what was there already is left out. */
export function append(
  x: number[],
  y: (number | null)[],
  newX: number[],
  newY: (number | null)[],
): [number[], (number | null)[]] {
  const last = x.length ? x[x.length - 1]! : -Infinity;
  const first = newX.findIndex((value) => value > last);
  return first < 0 ? [x, y] : [x.concat(newX.slice(first)), y.concat(newY.slice(first))];
}
