/** The curves of the shown run: fetched for the width and range at hand, then grown by what arrives. */
import { effect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Axis, Series } from "../api";
import { fetchSeries, type Range } from "../source";
import { arrived } from "../state";
import { watchSeries } from "../stream";
import { append } from "./lines";

const REFRESH = 15_000; // while a run grows, its curves are thinned out anew this often

export interface Curves {
  get: (name: string) => Series | null;
  loading: boolean;
  problem: string | null;
}

interface Kept {
  of: string; // which run and axis
  byName: Map<string, Series>;
}

export function useSeries(id: string, names: string[], axis: Axis, range: Range | null, growing: boolean): Curves {
  const [kept, setKept] = useState<Kept>({ of: "", byName: new Map() });
  const [loading, setLoading] = useState(true);
  const [problem, setProblem] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const of = `${id} ${axis}`;
  const list = names.join("\n");
  const open = range === null;
  const whole = useRef(open);
  whole.current = open;

  useEffect(() => {
    const stop = new AbortController();
    setLoading(true);
    const wait = setTimeout(
      () => {
        fetchSeries(id, names, axis, range, chartWidth(), stop.signal)
          .then((answer) => {
            setKept({ of, byName: new Map(answer.map((each) => [each.name, each])) });
            setProblem(null);
          })
          .catch((error: Error) => {
            if (error.name !== "AbortError") setProblem(error.message);
          })
          .finally(() => setLoading(false));
      },
      range ? 80 : 0,
    );
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [of, list, range?.from, range?.to, turn]);

  useEffect(() => watchSeries(axis, names), [of, list]);

  useEffect(() => {
    if (!growing) return;
    const timer = setInterval(() => setTurn((value) => value + 1), REFRESH);
    return () => clearInterval(timer);
  }, [growing]);

  useEffect(
    () =>
      effect(() => {
        const fresh = arrived.value.filter((each) => each.axis === axis);
        if (fresh.length && whole.current) setKept((before) => (before.of === of ? grown(before, fresh) : before));
      }),
    [of],
  );

  return { get: (name) => (kept.of === of ? (kept.byName.get(name) ?? null) : null), loading, problem };
}

function grown(before: Kept, fresh: Series[]): Kept {
  const byName = new Map(before.byName);
  for (const each of fresh) {
    const old = byName.get(each.name);
    if (!old) {
      byName.set(each.name, each);
      continue;
    }
    const [x, y] = append(old.x, old.y, each.x, each.y);
    if (x !== old.x) byName.set(each.name, { ...old, x, y });
  }
  return { of: before.of, byName };
}

/** Roughly the pixels a chart is wide; the server sends up to four points for each. */
export function chartWidth(): number {
  return innerWidth > 1040 ? Math.min(innerWidth, 1480) / 2 : innerWidth;
}
