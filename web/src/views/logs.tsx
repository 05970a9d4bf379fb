/** Logs of workers and servers: follow, search, filter by level, or open at a time. Lines are text, never markup. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Detail, Log } from "../api";
import { bytes, clock } from "../format";
import { Check, Empty, Loading, Note, Segmented } from "../parts/bits";
import { go, runAddress } from "../route";
import { exported } from "../source";
import { type Line, useLog } from "./log_lines";

const LEVELS = [
  ["", "All"],
  ["W", "Warnings"],
  ["E", "Errors"],
] as const;

export function LogsView({ detail, chosen }: { detail: Detail; chosen: URLSearchParams }) {
  const { logs, run } = detail;
  if (logs.length === 0)
    return (
      <Empty title="No logs">
        <p>
          {exported
            ? "This file was exported without logs. `umiak page --export FILE.html --with-logs` includes them."
            : "The run has written none. Its workers write theirs from their first second."}
        </p>
      </Empty>
    );
  const time = chosen.get("time");
  const name = chosen.get("log") ?? first(logs, time !== null);
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

/** The job's own log is often empty; what happened at a time, a trainer tells. */
function first(logs: Log[], atTime: boolean): string {
  const written = logs.filter((each) => each.bytes > 0);
  const trainer = written.find((each) => each.name.endsWith("-train"));
  return ((atTime ? trainer : undefined) ?? written[0] ?? logs[0]!).name;
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
  const [follow, setFollow] = useState(time === null && !exported);
  const text = useLog(id, log.name, { search, level }, time, follow);
  const box = useRef<HTMLDivElement>(null);
  const marked = time === null ? -1 : nearestLine(text.lines, time);
  useScroll(box, text.lines, follow, marked >= 0);

  function scrolled(event: Event) {
    const element = event.currentTarget as HTMLElement;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
    if (!atEnd && follow) setFollow(false);
    if (atEnd && !follow && time === null && !text.more && !exported) setFollow(true);
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
          <button type="button" class="small earlier" disabled={text.loading} onClick={text.earlier}>
            {search || level ? "Look further back" : "Show earlier lines"}
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
        {text.more && !follow && text.lines.length > 0 && (
          <button type="button" class="small earlier" disabled={text.loading} onClick={text.later}>
            Show later lines
          </button>
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

/** Followed, the box stays at its end; opened at a time, it begins there; when earlier lines come, what one reads stays in place. */
function useScroll(box: { current: HTMLDivElement | null }, lines: Line[], follow: boolean, hasMark: boolean): void {
  const before = useRef<{ first: number; height: number } | null>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || lines.length === 0) return;
    const first = lines[0]!.at;
    if (follow) element.scrollTop = element.scrollHeight;
    else if (before.current === null && hasMark) element.querySelector(".marked")?.scrollIntoView({ block: "center" });
    else if (before.current && first < before.current.first)
      element.scrollTop += element.scrollHeight - before.current.height;
    before.current = { first, height: element.scrollHeight };
  }, [lines, follow, hasMark]);
}
