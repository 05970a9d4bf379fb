/** The lines of a log at hand: its end, or those around a time; more at the end while it is followed, more on either side on demand. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { LogLines } from "../api";
import { exported, fetchLog, type LogQuestion } from "../source";

const KEPT = 5000; // lines in the page while it is followed
const PERIOD = 700; // milliseconds between two looks at the end
const ENOUGH = 200; // matches; with fewer, a search goes on further back
const STEPS = 100; // that it takes by itself

export type Line = LogLines["lines"][number];

export interface Text {
  lines: Line[];
  start: number; // the byte at which the lines begin
  more: boolean; // whether the log goes on after them
  loading: boolean;
  problem: string | null;
  earlier: () => void;
  later: () => void;
}

interface Part {
  lines: Line[];
  start: number;
  end: number;
  size: number;
}

const NOTHING: Part = { lines: [], start: 0, end: 0, size: 0 };

export function useLog(
  id: string,
  name: string,
  filter: { search: string; level: string },
  time: number | null,
  follow: boolean,
): Text {
  const [part, setPart] = useState<Part>(NOTHING);
  const [loading, setLoading] = useState(true);
  const [problem, setProblem] = useState<string | null>(null);
  const shown = useRef(part);
  const ready = useRef(false);
  const { search, level } = filter;

  const keep = (next: Part) => {
    shown.current = next;
    setPart(next);
  };

  const ask = useCallback(
    async (question: LogQuestion, signal?: AbortSignal): Promise<LogLines | null> => {
      try {
        const answer = await fetchLog(id, name, { ...question, search, level }, signal);
        setProblem(null);
        return answer;
      } catch (error) {
        if ((error as Error).name !== "AbortError") setProblem((error as Error).message);
        return null;
      }
    },
    [id, name, search, level],
  );

  const goBack = async (steps: number, signal?: AbortSignal) => {
    for (let step = 0; step < steps && shown.current.start > 0; step++) {
      const answer = await ask({ before: shown.current.start }, signal);
      if (!answer || signal?.aborted || answer.start >= shown.current.start) return;
      keep(before(answer, shown.current));
      if (shown.current.lines.length >= ENOUGH) return;
    }
  };

  useEffect(() => {
    const stop = new AbortController();
    ready.current = false;
    setLoading(true);
    const begin = async () => {
      const answer = await ask(time === null ? {} : { time }, stop.signal);
      if (stop.signal.aborted) return;
      if (answer) keep(answer);
      ready.current = answer !== null;
      if ((search || level) && shown.current.lines.length < ENOUGH) await goBack(STEPS, stop.signal);
      if (!stop.signal.aborted) setLoading(false);
    };
    const wait = setTimeout(() => void begin(), search ? 150 : 0);
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [ask, time]);

  useEffect(() => {
    if (!follow || exported) return;
    const stop = new AbortController();
    let timer = 0;
    const again = async () => {
      if (ready.current && !document.hidden) {
        const answer = await ask({ from: shown.current.end }, stop.signal);
        if (answer && !stop.signal.aborted) keep(after(shown.current, answer));
      }
      if (!stop.signal.aborted) timer = setTimeout(() => void again(), PERIOD);
    };
    timer = setTimeout(() => void again(), PERIOD);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [follow, ask]);

  const busy = (work: Promise<unknown>) => {
    setLoading(true);
    void work.finally(() => setLoading(false));
  };
  const later = async () => {
    const answer = await ask({ from: shown.current.end });
    if (answer)
      keep({ ...shown.current, ...span(shown.current, answer), lines: shown.current.lines.concat(answer.lines) });
  };
  return {
    lines: part.lines,
    start: part.start,
    more: part.end < part.size,
    loading,
    problem,
    earlier: () => busy(goBack(search || level ? STEPS : 1)),
    later: () => busy(later()),
  };
}

function before(earlier: LogLines, shown: Part): Part {
  return { ...shown, lines: earlier.lines.concat(shown.lines), start: earlier.start };
}

/** A log that was written anew is shorter than what is known of it: then it begins again. */
function after(shown: Part, answer: LogLines): Part {
  if (answer.size < shown.end) return NOTHING;
  if (answer.lines.length === 0) return { ...shown, ...span(shown, answer) };
  const lines = shown.lines.concat(answer.lines);
  const kept = lines.slice(-KEPT);
  return { ...span(shown, answer), lines: kept, start: kept.length < lines.length ? kept[0]!.at : shown.start };
}

function span(shown: Part, answer: LogLines): { end: number; size: number } {
  return { end: Math.max(shown.end, answer.end), size: answer.size };
}
