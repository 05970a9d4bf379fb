/** Logs of workers and servers: follow, search, filter by level, or open at a time. Lines are text, never markup. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Detail, Log, LogLines } from "../api";
import { bytes, clock } from "../format";
import { Check, Empty, Loading, Note, Segmented } from "../parts/bits";
import { go, runAddress } from "../route";
import { exported, fetchLog, type LogQuestion } from "../source";

const KEPT = 5000; // lines in the page; older ones are read again when one scrolls up
const LEVELS = [
  ["", "All"],
  ["W", "Warnings"],
  ["E", "Errors"],
] as const;

type Line = LogLines["lines"][number];

export function LogsView({ detail, chosen }: { detail: Detail; chosen: URLSearchParams }) {
  const { logs, run } = detail;
  if (logs.length === 0)
    return (
      <Empty title="No logs">
        <p>
          {exported
            ? "This file was exported without logs. `umiak page --export FILE --logs` includes them."
            : "The run has written none. Its workers write theirs from their first second."}
        </p>
      </Empty>
    );
  const time = chosen.get("time");
  const name = chosen.get("log") ?? logs[0]!.name;
  const open = (log: string) => go(runAddress(run.id, "logs", { log, ...(time ? { time } : {}) }));
  const log = logs.find((each) => each.name === name) ?? logs[0]!;
  return (
    <section aria-label="Logs" class="logs">
      <nav class="log-names" aria-label="Logs">
        {logs.map((each) => (
          <button key={each.name} type="button" aria-pressed={each.name === log.name} onClick={() => open(each.name)}>
            <span>{each.title}</span>
            <span class="quiet">{bytes(each.bytes)}</span>
          </button>
        ))}
      </nav>
      <OneLog
        key={`${log.name} ${time}`}
        id={run.id}
        log={log}
        time={time === null ? null : Number(time)}
        growing={run.state === "running"}
      />
    </section>
  );
}

interface OneLogProps {
  id: string;
  log: Log;
  time: number | null;
  growing: boolean;
}

function OneLog({ id, log, time, growing }: OneLogProps) {
  const [search, setSearch] = useState("");
  const [level, setLevel] = useState("");
  const [follow, setFollow] = useState(time === null);
  const text = useLog(id, log.name, { search, level }, time, follow);
  const box = useRef<HTMLDivElement>(null);
  const marked = time === null ? -1 : nearestLine(text.lines, time);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    if (follow) element.scrollTop = element.scrollHeight;
    else element.querySelector(".marked")?.scrollIntoView({ block: "center" });
  }, [text.lines, follow]);

  function scrolled(event: Event) {
    const element = event.currentTarget as HTMLElement;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
    if (!atEnd && follow) setFollow(false);
    if (atEnd && !follow && time === null) setFollow(true);
  }

  return (
    <div class="card log-card">
      <div class="toolbar">
        <input
          type="search"
          class="filter"
          data-shortcut="/"
          placeholder="Search this log"
          aria-label="Search this log"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <Segmented name="Level" value={level} options={LEVELS} onChange={setLevel} />
        {!exported && <Check label="Follow" checked={follow} onChange={setFollow} />}
        {time !== null && (
          <span class="quiet">
            at {clock(time)} <a href={runAddress(id, "logs", { log: log.name })}>Show the end</a>
          </span>
        )}
      </div>
      {text.problem && <Note tone="warn">The log cannot be read: {text.problem}</Note>}
      <div
        ref={box}
        class="log-lines"
        role="log"
        aria-label={log.title}
        aria-live="off"
        tabIndex={0}
        onScroll={scrolled}
      >
        {text.start > 0 && (
          <button type="button" class="small earlier" onClick={text.earlier}>
            Show earlier lines
          </button>
        )}
        {text.lines.map((line, i) => (
          <div key={line.at} class={`log-line level-${line.level || "none"} ${i === marked ? "marked" : ""}`}>
            <Marked text={line.text} search={search} />
          </div>
        ))}
        {text.loading && text.lines.length === 0 && <Loading what="the log" />}
        {!text.loading && text.lines.length === 0 && (
          <p class="quiet log-none">
            {search || level ? "No line matches." : growing ? "Nothing written yet." : "This log is empty."}
          </p>
        )}
      </div>
    </div>
  );
}

function Marked({ text, search }: { text: string; search: string }) {
  const at = search ? text.toLowerCase().indexOf(search.toLowerCase()) : -1;
  if (at < 0) return <>{text}</>;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + search.length)}</mark>
      {text.slice(at + search.length)}
    </>
  );
}

function nearestLine(lines: Line[], time: number): number {
  let best = -1;
  for (const [i, line] of lines.entries()) {
    if (line.time === null) continue;
    if (best < 0 || Math.abs(line.time - time) < Math.abs(lines[best]!.time! - time)) best = i;
  }
  return best;
}

interface Text {
  lines: Line[];
  start: number;
  loading: boolean;
  problem: string | null;
  earlier: () => void;
}

/** The lines at hand: the end of the log or those around a time; more at the end while it is followed, more before on demand. */
function useLog(
  id: string,
  name: string,
  filter: { search: string; level: string },
  time: number | null,
  follow: boolean,
): Text {
  const [lines, setLines] = useState<Line[]>([]);
  const [loading, setLoading] = useState(true);
  const [problem, setProblem] = useState<string | null>(null);
  const [start, setStart] = useState(0);
  const end = useRef(0);
  const { search, level } = filter;

  const ask = useCallback(
    async (question: LogQuestion, use: (answer: LogLines) => void, signal?: AbortSignal) => {
      try {
        use(await fetchLog(id, name, { ...question, search, level }, signal));
        setProblem(null);
      } catch (error) {
        if ((error as Error).name !== "AbortError") setProblem((error as Error).message);
      }
    },
    [id, name, search, level],
  );

  useEffect(() => {
    const stop = new AbortController();
    const wait = setTimeout(
      () =>
        ask(
          time === null ? {} : { time },
          (answer) => {
            setLines(answer.lines.slice(-KEPT));
            setStart(answer.start);
            end.current = answer.end;
          },
          stop.signal,
        ).finally(() => setLoading(false)),
      search ? 150 : 0,
    );
    return () => {
      clearTimeout(wait);
      stop.abort();
    };
  }, [ask, time, search]);

  useEffect(() => {
    if (!follow || exported) return;
    const stop = new AbortController();
    let timer = 0;
    const again = async () => {
      if (end.current > 0 && !document.hidden)
        await ask(
          { from: end.current },
          (answer) => {
            end.current = Math.max(end.current, answer.end);
            if (answer.lines.length) setLines((before) => before.concat(answer.lines).slice(-KEPT));
          },
          stop.signal,
        );
      if (!stop.signal.aborted) timer = setTimeout(again, 700);
    };
    timer = setTimeout(again, 700);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [follow, ask]);

  const earlier = () =>
    void ask({ before: start }, (answer) => {
      setStart(answer.start);
      setLines((before) => answer.lines.concat(before).slice(0, KEPT));
    });
  return { lines, start, loading, problem, earlier };
}
